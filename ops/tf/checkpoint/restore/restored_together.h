// SPDX-License-Identifier: Apache-2.0
// How ranks end what they restore: all of them, or none.
#ifndef SOK_OPS_TF_CHECKPOINT_RESTORE_RESTORED_TOGETHER_H_
#define SOK_OPS_TF_CHECKPOINT_RESTORE_RESTORED_TOGETHER_H_

#include <functional>
#include <string>

#include "ops/tf/ranks/rank_communicator.h"

namespace sok {

/// Calls read() on all ranks. When it returns, it has returned on all, and has said the same: what
/// has been read of the checkpoint `prefix`. Otherwise throws on all: on a rank what its own read()
/// has thrown, on others the same error with the rank before it; kFailedPrecondition where ranks
/// have read different things.
void ReadOnAllRanks(RankCommunicator& communicator, const std::string& prefix,
                    const std::function<std::string()>& read);

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_RESTORE_RESTORED_TOGETHER_H_
