// SPDX-License-Identifier: Apache-2.0
// Ops of the backward pass: gradients of bags to one slice for each row.
#include <string>

#include "ops/lookup/merge_gradients.h"
#include "ops/tf/bags_input.h"
#include "ops/tf/border.h"
#include "ops/tf/exchange_service.h"
#include "ops/tf/lookup_checks.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokMergeGradients")
    .Input("gradients: float")
    .Input("row_ids: int64")
    .Input("inverse: int32")
    .Input("row_splits: int64")
    .Input("mean_splits: int64")
    .Attr("combiner: {'none', 'sum', 'mean'}")
    .Output("merged: float")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Matrix(c->Dim(c->input(1), 0), c->Dim(c->input(0), 1)));
      return absl::OkStatus();
    })
    .Doc(
        "The gradient of each distinct row, summed over its occurrences; gradients is [num_bags, "
        "dim]. A mean divides by the sizes that mean_splits gives.");

class MergeGradientsOp : public tf::OpKernel {
 public:
  explicit MergeGradientsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), combiner_(ParseCombiner(Attribute<std::string>(ctx, "combiner"))) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& gradients = InputOfRank(ctx, 0, "gradients", 2);
      const int64_t num_distinct = InputOfRank(ctx, 1, "row_ids", 1).NumElements();
      const Bags bags = BagsFromInputs(combiner_, num_distinct, InputOfRank(ctx, 2, "inverse", 1),
                                       InputOfRank(ctx, 3, "row_splits", 1),
                                       &InputOfRank(ctx, 4, "mean_splits", 1));
      CheckGradientsOfBags(name(), gradients, bags);
      if (IsOneToOneInOrder(bags)) {  // nothing to add up
        ctx->set_output(0, gradients);
        return;
      }
      const int64_t dim = gradients.dim_size(1);
      tf::Tensor& merged = Output(ctx, 0, {num_distinct, dim});
      OpExecutor executor(ctx);
      MergeGradients(executor, bags, dim, Data<float>(gradients), Data<float>(merged));
    });
  }

 private:
  const Combiner combiner_;
};

REGISTER_KERNEL_BUILDER(Name("SokMergeGradients").Device(tf::DEVICE_CPU), MergeGradientsOp);

}  // namespace
}  // namespace sok
