// SPDX-License-Identifier: Apache-2.0
// Ops that make a function known as a part of the step that calls it.
#include <cstdint>

#include "ops/tf/border.h"
#include "ops/tf/table_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokNumberOfStep")
    .Input("table: resource")
    .Output("number: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("The number of the step that runs this op, for SokJoinStep in functions that it calls.");

REGISTER_OP("SokJoinStep")
    .Input("table: resource")
    .Input("number: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "From now on, what the function does that runs this op is of the step of that number: "
        "which rows are hidden from it, and how long it may hold rows of evicted keys.");

class NumberOfStepOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const auto resource = LookupTable(ctx, tf::HandleFromInput(ctx, 0));
      Output(ctx, 0, {}).scalar<int64_t>()() = resource->steps().NumberOf(ctx);
    });
  }
};

class JoinStepOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const int64_t number = InputOfRank(ctx, 1, "number", 0).scalar<int64_t>()();
      LookupTable(ctx, tf::HandleFromInput(ctx, 0))->steps().Join(ctx, number);
    });
  }
};

SOK_REGISTER_KERNEL(Name("SokNumberOfStep").HostMemory("table").HostMemory("number"),
                    NumberOfStepOp);
SOK_REGISTER_KERNEL(Name("SokJoinStep").HostMemory("table").HostMemory("number"), JoinStepOp);

}  // namespace
}  // namespace sok
