// SPDX-License-Identifier: Apache-2.0
// The progress of checkpoints, for logging.
#ifndef SOK_OPS_TF_CHECKPOINT_BUNDLE_CHECKPOINT_PROGRESS_H_
#define SOK_OPS_TF_CHECKPOINT_BUNDLE_CHECKPOINT_PROGRESS_H_

#include <cstdint>

namespace sok {

/// Adds bytes of tables that this process has just written to or read from checkpoints.
/// sok_checkpoint_bytes(), with C linkage, returns the sum.
void NoteCheckpointBytes(int64_t num_bytes);

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_CHECKPOINT_PROGRESS_H_
