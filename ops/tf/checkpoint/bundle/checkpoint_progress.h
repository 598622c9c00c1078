// SPDX-License-Identifier: Apache-2.0
// How far checkpoints have come, for who logs it.
#ifndef SOK_OPS_TF_CHECKPOINT_BUNDLE_CHECKPOINT_PROGRESS_H_
#define SOK_OPS_TF_CHECKPOINT_BUNDLE_CHECKPOINT_PROGRESS_H_

#include <cstdint>

namespace sok {

/// Bytes of tables that this process has written to checkpoints, or read from them, just now.
/// sok_checkpoint_bytes(), with C's names, is the sum of all.
void NoteCheckpointBytes(int64_t num_bytes);

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_CHECKPOINT_PROGRESS_H_
