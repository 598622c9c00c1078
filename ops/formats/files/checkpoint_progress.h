// SPDX-License-Identifier: Apache-2.0
// The progress of checkpoints, for figures and logs.
#ifndef SOK_OPS_FORMATS_FILES_CHECKPOINT_PROGRESS_H_
#define SOK_OPS_FORMATS_FILES_CHECKPOINT_PROGRESS_H_

#include <atomic>
#include <cstdint>

namespace sok {

/// Bytes of tables that this process has written to checkpoints and dumps.
inline std::atomic<int64_t> saved_bytes{0};
/// Those that it has read from them.
inline std::atomic<int64_t> restored_bytes{0};

}  // namespace sok

#endif  // SOK_OPS_FORMATS_FILES_CHECKPOINT_PROGRESS_H_
