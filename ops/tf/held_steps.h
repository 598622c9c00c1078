// SPDX-License-Identifier: Apache-2.0
// The moment that a checkpoint is of: no step that changes tables runs on any rank.
#ifndef SOK_OPS_TF_HELD_STEPS_H_
#define SOK_OPS_TF_HELD_STEPS_H_

#include "ops/tf/rank_meeting.h"
#include "ops/tf/step_gate.h"

namespace sok {

/// While it lives, steps of its session that have not begun wait at its gate.
class HeldSteps {
 public:
  /// When it returns, steps that have begun on some rank have ended on all. After `most_seconds` it
  /// logs an error, and returns all the same. Throws as RankMeeting does, and kCancelled.
  HeldSteps(tensorflow::OpKernelContext* ctx, RankMeeting& meeting, double most_seconds);
  ~HeldSteps() { LetGo(); }
  HeldSteps(const HeldSteps&) = delete;
  HeldSteps& operator=(const HeldSteps&) = delete;

  void LetGo();

 private:
  bool AwaitEndOnAllRanks(tensorflow::OpKernelContext* ctx, RankMeeting& meeting,
                          double most_seconds);

  tensorflow::core::RefCountPtr<StepGate> gate_;  // null: it is open again
};

}  // namespace sok

#endif  // SOK_OPS_TF_HELD_STEPS_H_
