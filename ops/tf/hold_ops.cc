// SPDX-License-Identifier: Apache-2.0
// The op that waits for the moment that a checkpoint is of.
#include <memory>
#include <utility>

#include "ops/tf/held_steps.h"
#include "ops/tf/shared_variant.h"
#include "ops/tf/whole_table_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokHoldSteps")
    .Input("tickets: num_tickets * variant")
    .Output("steps: variant")
    .Attr("num_tickets: int >= 0")
    .Attr("num_ranks: int >= 1")
    .Attr("rank: int >= 0")
    .Attr("most_seconds: float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Ends when no step that uses tables runs on any rank, and keeps others from beginning "
        "until SokCommitCheckpoint, or the end of the step. All ranks run it. After most_seconds "
        "it logs an error, and ends all the same.");

class HoldStepsOp : public MeetingOp {
 public:
  explicit HoldStepsOp(tf::OpKernelConstruction* ctx)
      : MeetingOp(ctx),
        num_ranks_(Attribute<int64_t>(ctx, "num_ranks")),
        rank_(Attribute<int64_t>(ctx, "rank")),
        most_seconds_(Attribute<float>(ctx, "most_seconds")) {}

 protected:
  void Run(tf::OpKernelContext* ctx, std::shared_ptr<const HeldTicket> held) override {
    RankMeeting meeting(ctx, num_ranks_, rank_, std::move(held));
    OutputShared(ctx, 0, std::make_shared<HeldSteps>(ctx, meeting, most_seconds_));
  }

 private:
  const int64_t num_ranks_, rank_;
  const float most_seconds_;
};

SOK_REGISTER_KERNEL(Name("SokHoldSteps").HostMemory("tickets").HostMemory("steps"), HoldStepsOp);

}  // namespace
}  // namespace sok
