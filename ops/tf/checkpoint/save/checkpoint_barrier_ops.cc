// SPDX-License-Identifier: Apache-2.0
// The op that waits for the moment of a checkpoint.
#include <memory>

#include "ops/tf/base/kernels.h"
#include "ops/tf/base/shared_variant.h"
#include "ops/tf/ranks/checkpoint_barrier.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

REGISTER_OP("SokHoldCheckpointBarrier")
    .Output("steps: variant") SOK_COLLECTIVES.Attr("most_seconds: float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Ends when no step that uses tables runs on any rank, and prevents others from beginning "
        "until SokCommitCheckpoint, or the end of the step. All ranks run it. After most_seconds "
        "it fails on all ranks and names the steps that have not ended.");

class HoldBarrierOp : public CommunicatingOp {
 public:
  explicit HoldBarrierOp(tf::OpKernelConstruction* ctx)
      : CommunicatingOp(ctx), most_seconds_(Attribute<float>(ctx, "most_seconds")) {}

 protected:
  void Run(tf::OpKernelContext* ctx, RankCommunicator& communicator) override {
    OutputShared(ctx, "steps",
                 std::make_shared<CheckpointBarrier>(ctx, communicator, most_seconds_));
  }

 private:
  const float most_seconds_;
};

const RegisteredKernel kCheckpointBarrierKernels[] = {
    {"SokHoldCheckpointBarrier", Make<HoldBarrierOp>, {"collectives", "steps"}},
};

}  // namespace
}  // namespace sok
