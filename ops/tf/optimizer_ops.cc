// SPDX-License-Identifier: Apache-2.0
// Fused optimizers on the rows of a table and their state.
#include <vector>

#include "ops/lookup/adagrad.h"
#include "ops/lookup/adam.h"
#include "ops/tf/border.h"
#include "ops/tf/exchange_service.h"
#include "ops/tf/row_gradients.h"
#include "ops/tf/table_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

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

REGISTER_OP("SokApplyAdagrad")
    .Input("rows: resource")
    .Input("accumulator: resource")
    .Input("table: resource")
    .Input("learning_rate: float")
    .Input("epsilon: float")
    .Input("gradients: float")
    .Input("row_ids: int64")
    .Attr("row_ids_are_distinct: bool")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("accumulator += g^2, rows -= learning_rate * g / (sqrt(accumulator) + epsilon).");

float Scalar(tf::OpKernelContext* ctx, int index) { return ctx->input(index).scalar<float>()(); }

class ApplyAdamOp : public tf::OpKernel {
 public:
  explicit ApplyAdamOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        is_lazy_(Attribute<bool>(ctx, "is_lazy")),
        row_ids_are_distinct_(Attribute<bool>(ctx, "row_ids_are_distinct")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const auto rows = LookupVariable(ctx, 0);
      const auto state = LookupVariable(ctx, 1);
      const std::shared_ptr<Table> table = LookupTable(ctx, 2)->table();
      const TableOptions& options = table->options();
      AdamStep step;
      step.step_size = Scalar(ctx, 3);
      step.beta1 = Scalar(ctx, 4);
      step.beta2 = Scalar(ctx, 5);
      step.epsilon = Scalar(ctx, 6);
      OpExecutor executor(ctx);
      const RowGradients gradients(executor, *table, InputOfRank(ctx, 7, "gradients", 2),
                                   InputOfRank(ctx, 8, "row_ids", 1), row_ids_are_distinct_);
      SharedLocks locks({rows.get(), state.get()});
      AdamPlanes planes;
      planes.dim = options.dim;
      planes.rows = PlaneData(rows.get(), options.capacity, options.dim);
      planes.state = PlaneData(state.get(), options.capacity, 2 * options.dim);
      if (is_lazy_) {
        ApplyLazyAdam(executor, step, planes, gradients.count(), gradients.row_ids(),
                      gradients.values());
      } else {
        // Rows of a hash table are all in use; without one, there may be few among very many.
        const std::vector<int64_t> in_use =
            options.use_hash_index ? std::vector<int64_t>() : table->Export().row_ids;
        ApplyAdam(executor, step, planes,
                  options.use_hash_index ? table->num_rows() : static_cast<int64_t>(in_use.size()),
                  options.use_hash_index ? nullptr : in_use.data(), gradients.count(),
                  gradients.row_ids(), gradients.values());
      }
    });
  }

 private:
  const bool is_lazy_;
  const bool row_ids_are_distinct_;
};

class ApplyAdagradOp : public tf::OpKernel {
 public:
  explicit ApplyAdagradOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), row_ids_are_distinct_(Attribute<bool>(ctx, "row_ids_are_distinct")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const auto rows = LookupVariable(ctx, 0);
      const auto accumulator = LookupVariable(ctx, 1);
      const std::shared_ptr<Table> table = LookupTable(ctx, 2)->table();
      const TableOptions& options = table->options();
      OpExecutor executor(ctx);
      const RowGradients gradients(executor, *table, InputOfRank(ctx, 5, "gradients", 2),
                                   InputOfRank(ctx, 6, "row_ids", 1), row_ids_are_distinct_);
      SharedLocks locks({rows.get(), accumulator.get()});
      AdagradPlanes planes;
      planes.dim = options.dim;
      planes.rows = PlaneData(rows.get(), options.capacity, options.dim);
      planes.accumulator = PlaneData(accumulator.get(), options.capacity, options.dim);
      ApplyAdagrad(executor, {Scalar(ctx, 3), Scalar(ctx, 4)}, planes, gradients.count(),
                   gradients.row_ids(), gradients.values());
    });
  }

 private:
  const bool row_ids_are_distinct_;
};

REGISTER_KERNEL_BUILDER(Name("SokApplyAdam").Device(tf::DEVICE_CPU), ApplyAdamOp);
REGISTER_KERNEL_BUILDER(Name("SokApplyAdagrad").Device(tf::DEVICE_CPU), ApplyAdagradOp);

}  // namespace
}  // namespace sok
