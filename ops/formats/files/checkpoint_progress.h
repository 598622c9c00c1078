// SPDX-License-Identifier: Apache-2.0
// The progress of checkpoints, for figures and logs.
#pragma once

#include <atomic>
#include <cstdint>

namespace sok {

/// Bytes of tables that this process has written to checkpoints and dumps.
inline std::atomic<int64_t> saved_bytes{0};
/// Those that it has read from them.
inline std::atomic<int64_t> restored_bytes{0};

}  // namespace sok
