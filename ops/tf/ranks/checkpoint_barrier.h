// SPDX-License-Identifier: Apache-2.0
// The moment of a checkpoint: no step that changes tables runs on any rank.
#pragma once

#include <memory>

#include "ops/tf/ranks/rank_communicator.h"
#include "ops/tf/steps/session_steps.h"

namespace sok {

/// While it lives, steps of its session that have not begun wait before their first lookup.
class CheckpointBarrier {
 public:
  /// Returns when steps that had begun on any rank have ended on all. Throws kDeadlineExceeded on
  /// all ranks, naming the running steps, if they have not ended after `most_seconds`; otherwise
  /// the errors of RankCommunicator, and kCancelled.
  CheckpointBarrier(tf::OpKernelContext* ctx, RankCommunicator& communicator, double most_seconds);
  ~CheckpointBarrier() { Release(); }
  CheckpointBarrier(const CheckpointBarrier&) = delete;
  CheckpointBarrier& operator=(const CheckpointBarrier&) = delete;

  void Release();

 private:
  tf::core::RefCountPtr<SessionSteps> steps_;  // null once released
};

/// The barrier that is the input `steps` of an op. Throws kInvalidArgument.
std::shared_ptr<CheckpointBarrier> BarrierIn(tf::OpKernelContext* ctx);

}  // namespace sok
