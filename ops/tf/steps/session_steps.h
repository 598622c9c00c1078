// SPDX-License-Identifier: Apache-2.0
// Which step an op is part of, and how its end is seen: the registry of steps for TensorFlow.
#ifndef SOK_OPS_TF_STEPS_SESSION_STEPS_H_
#define SOK_OPS_TF_STEPS_SESSION_STEPS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/tf/steps/step_registry.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace sok {

/// Of a session, or of eager code. A step is all that has one cancellation manager: a run of a
/// session, or the call of a function outside of sessions, with the functions that are called in
/// it; a function of tf.data, or an op outside of functions. It ends when the manager has gone, or
/// was cancelled, and TensorFlow has emptied the containers of the step.
class SessionSteps : public tensorflow::ResourceBase {
 public:
  static tensorflow::core::RefCountPtr<SessionSteps> Of(tensorflow::OpKernelContext* ctx);

  StepRegistry& registry() { return registry_; }
  /// Throws kCancelled when the step has been cancelled.
  int64_t StepOf(tensorflow::OpKernelContext* ctx);

  /// Before an op finds rows: true where its step may go on. Otherwise `go_on` is called once, with
  /// an error or when it may; the op may be over when this returns. `collectives`: of its lookup,
  /// if other ranks take part. Throws as StepOf.
  using GoOn = std::function<void(const absl::Status&)>;
  bool Enter(tensorflow::OpKernelContext* ctx, const std::vector<CollectiveId>& collectives,
             GoOn go_on);

  std::string DebugString() const override { return "the steps that use tables"; }

 private:
  class Witness;

  StepRegistry registry_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_STEPS_SESSION_STEPS_H_
