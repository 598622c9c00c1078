// SPDX-License-Identifier: Apache-2.0
// The progress of checkpoints, for logging.
#ifndef SOK_OPS_FORMATS_FILES_CHECKPOINT_PROGRESS_H_
#define SOK_OPS_FORMATS_FILES_CHECKPOINT_PROGRESS_H_

#include <atomic>
#include <cstdint>

namespace sok {

/// Bytes of tables that this process has written to checkpoints or read from them.
inline std::atomic<int64_t> checkpoint_bytes{0};

inline void NoteCheckpointBytes(int64_t num_bytes) { checkpoint_bytes += num_bytes; }

}  // namespace sok

#endif  // SOK_OPS_FORMATS_FILES_CHECKPOINT_PROGRESS_H_
