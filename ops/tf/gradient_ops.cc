// SPDX-License-Identifier: Apache-2.0
// Ops of the backward pass: gradients of bags to one slice for each row, and Adam on rows.
#include <string>
#include <vector>

#include "ops/lookup/adam.h"
#include "ops/lookup/distinct.h"
#include "ops/lookup/merge_gradients.h"
#include "ops/tf/bags_input.h"
#include "ops/tf/border.h"
#include "ops/tf/table_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
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
    .Attr("combiner: {'none', 'sum', 'mean'}")
    .Output("merged: float")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Matrix(c->Dim(c->input(1), 0), c->Dim(c->input(0), 1)));
      return absl::OkStatus();
    })
    .Doc(
        "The gradient of each distinct row, summed over its occurrences; gradients is [num_bags, "
        "dim].");

REGISTER_OP("SokApplyAdam")
    .Input("rows: resource")
    .Input("state: resource")
    .Input("table: resource")
    .Input("step_size: float")
    .Input("beta1: float")
    .Input("beta2: float")
    .Input("epsilon: float")
    .Input("gradients: float")
    .Input("row_ids: int64")
    .Attr("is_lazy: bool")
    .Attr("row_ids_are_distinct: bool")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Adam on rows, with m and v side by side in `state`; is_lazy: only rows in row_ids decay "
        "and move.");

class MergeGradientsOp : public tf::OpKernel {
 public:
  explicit MergeGradientsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), combiner_(ParseCombiner(Attribute<std::string>(ctx, "combiner"))) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& gradients = InputOfRank(ctx, 0, "gradients", 2);
      const int64_t num_distinct = InputOfRank(ctx, 1, "row_ids", 1).NumElements();
      const Bags bags = BagsFromInputs(combiner_, num_distinct, InputOfRank(ctx, 2, "inverse", 1),
                                       InputOfRank(ctx, 3, "row_splits", 1));
      if (gradients.dim_size(0) != bags.num_bags) {
        Throw(ErrorCode::kInvalidArgument, name(), ": gradients for ", bags.num_bags,
              " bags expected, got ", gradients.dim_size(0));
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

/// Gradients by row, each row once.
struct RowGradients {
  int64_t count = 0;
  const int64_t* row_ids = nullptr;
  const float* values = nullptr;
  std::vector<int64_t> merged_row_ids;
  std::vector<float> merged_values;
};

void MergeRepeatedRows(Executor& executor, int64_t dim, RowGradients* gradients) {
  const auto count = static_cast<size_t>(gradients->count);
  std::vector<int32_t> inverse(count);
  gradients->merged_row_ids.resize(count);
  Bags bags;
  bags.num_keys = gradients->count;
  bags.num_bags = gradients->count;
  bags.num_distinct = Distinct<int64_t>(executor, gradients->count, gradients->row_ids,
                                        gradients->merged_row_ids.data(), inverse.data());
  if (bags.num_distinct == gradients->count) return;
  bags.inverse = inverse.data();
  gradients->merged_values.resize(static_cast<size_t>(bags.num_distinct * dim));
  MergeGradients(executor, bags, dim, gradients->values, gradients->merged_values.data());
  gradients->count = bags.num_distinct;
  gradients->row_ids = gradients->merged_row_ids.data();
  gradients->values = gradients->merged_values.data();
}

class ApplyAdamOp : public tf::OpKernel {
 public:
  explicit ApplyAdamOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        is_lazy_(Attribute<bool>(ctx, "is_lazy")),
        row_ids_are_distinct_(Attribute<bool>(ctx, "row_ids_are_distinct")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const auto rows = LookupVariable(ctx, 0);
      const auto state = LookupVariable(ctx, 1);
      const std::shared_ptr<Table> table = LookupTable(ctx, 2)->table();
      const TableOptions& options = table->options();
      AdamStep step;
      step.step_size = ctx->input(3).scalar<float>()();
      step.beta1 = ctx->input(4).scalar<float>()();
      step.beta2 = ctx->input(5).scalar<float>()();
      step.epsilon = ctx->input(6).scalar<float>()();

      OpExecutor executor(ctx);
      RowGradients gradients = Gradients(ctx, *table);
      if (!row_ids_are_distinct_) MergeRepeatedRows(executor, options.dim, &gradients);

      SharedLocks locks({rows.get(), state.get()});
      AdamPlanes planes;
      planes.dim = options.dim;
      planes.rows = PlaneData(rows.get(), options.capacity, options.dim);
      planes.state = PlaneData(state.get(), options.capacity, 2 * options.dim);
      if (is_lazy_) {
        ApplyLazyAdam(executor, step, planes, gradients.count, gradients.row_ids, gradients.values);
      } else {
        ApplyAdam(executor, step, planes, table->num_rows(), gradients.count, gradients.row_ids,
                  gradients.values);
      }
    });
  }

 private:
  static RowGradients Gradients(tf::OpKernelContext* ctx, const Table& table) {
    const tf::Tensor& values = InputOfRank(ctx, 7, "gradients", 2);
    const tf::Tensor& row_ids = InputOfRank(ctx, 8, "row_ids", 1);
    RowGradients gradients;
    gradients.count = row_ids.NumElements();
    gradients.row_ids = Data<int64_t>(row_ids);
    gradients.values = Data<float>(values);
    const TableOptions& options = table.options();
    if (values.dim_size(0) != gradients.count || values.dim_size(1) != options.dim) {
      Throw(ErrorCode::kInvalidArgument, "table ", options.name, ": gradients must have shape [",
            gradients.count, ", ", options.dim, "], got ", values.shape().DebugString());
    }
    const int64_t num_rows = table.num_rows();
    for (int64_t i = 0; i < gradients.count; ++i) {
      if (gradients.row_ids[i] < 0 || gradients.row_ids[i] >= num_rows) {
        Throw(ErrorCode::kInvalidArgument, "table ", options.name, ": gradient for row ",
              gradients.row_ids[i], ", but the table has ", num_rows,
              " rows; take gradients with tf.gradients of this table's lookups");
      }
    }
    return gradients;
  }

  const bool is_lazy_;
  const bool row_ids_are_distinct_;
};

REGISTER_KERNEL_BUILDER(Name("SokMergeGradients").Device(tf::DEVICE_CPU), MergeGradientsOp);
REGISTER_KERNEL_BUILDER(Name("SokApplyAdam").Device(tf::DEVICE_CPU), ApplyAdamOp);

}  // namespace
}  // namespace sok
