// SPDX-License-Identifier: Apache-2.0
// The moment that a checkpoint is of: no step that changes tables runs on any rank.
#ifndef SOK_OPS_TF_RANKS_CHECKPOINT_BARRIER_H_
#define SOK_OPS_TF_RANKS_CHECKPOINT_BARRIER_H_

#include "ops/tf/ranks/rank_communicator.h"
#include "ops/tf/steps/session_steps.h"

namespace sok {

/// While it lives, steps of its session that have not begun wait before their first lookup.
class CheckpointBarrier {
 public:
  /// When it returns, steps that have begun on some rank have ended on all. Throws
  /// kDeadlineExceeded on all ranks, with the steps that run, when they have not after
  /// `most_seconds`; else as RankCommunicator does, and kCancelled.
  CheckpointBarrier(tensorflow::OpKernelContext* ctx, RankCommunicator& communicator,
                    double most_seconds);
  ~CheckpointBarrier() { LetGo(); }
  CheckpointBarrier(const CheckpointBarrier&) = delete;
  CheckpointBarrier& operator=(const CheckpointBarrier&) = delete;

  void LetGo();

 private:
  tensorflow::core::RefCountPtr<SessionSteps> steps_;  // null: they go on again
};

}  // namespace sok

#endif  // SOK_OPS_TF_RANKS_CHECKPOINT_BARRIER_H_
