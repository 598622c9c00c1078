// SPDX-License-Identifier: Apache-2.0
// GPU kernels of the fused optimizers; the ops are defined in optimizer_ops.cc.
#include "ops/tf/border.h"
#include "ops/tf/device_row_gradients.h"
#include "ops/tf/device_table_resource.h"
#include "ops/tf/exchange_service.h"

namespace sok {
namespace {

namespace tf = tensorflow;

float Scalar(tf::OpKernelContext* ctx, int index) { return ctx->input(index).scalar<float>()(); }

class ApplyAdamOp : public tf::OpKernel {
 public:
  explicit ApplyAdamOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        is_lazy_(Attribute<bool>(ctx, "is_lazy")),
        row_ids_are_distinct_(Attribute<bool>(ctx, "row_ids_are_distinct")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      DeviceCall call(ctx);
      const auto state = LookupVariable(ctx, 1);
      AdamStep step;
      step.step_size = Scalar(ctx, 3);
      step.beta1 = Scalar(ctx, 4);
      step.beta2 = Scalar(ctx, 5);
      step.epsilon = Scalar(ctx, 6);
      LookupDeviceTable(ctx, 2)->WithPlanes(call, [&](const DeviceView& view) {
        const TableOptions& options = view.table.options();
        const DeviceRowGradients gradients =
            CheckedRowGradients(call, view.table, InputOfRank(ctx, 7, "gradients", 2),
                                InputOfRank(ctx, 8, "row_ids", 1), row_ids_are_distinct_);
        float* rows = view.planes.rows->data();
        float* m_and_v = PlaneData(state.get(), options.capacity, 2 * options.dim);
        if (is_lazy_) {
          call.engine().ApplyLazyAdam(call.stream(), step, options.dim, rows, m_and_v,
                                      gradients.count, gradients.row_ids, gradients.values);
        } else {
          view.table.ApplyAdam(call.stream(), step, rows, m_and_v, gradients.count,
                               gradients.row_ids, gradients.values);
        }
      });
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
      DeviceCall call(ctx);
      const auto accumulator = LookupVariable(ctx, 1);
      LookupDeviceTable(ctx, 2)->WithPlanes(call, [&](const DeviceView& view) {
        const TableOptions& options = view.table.options();
        const DeviceRowGradients gradients =
            CheckedRowGradients(call, view.table, InputOfRank(ctx, 5, "gradients", 2),
                                InputOfRank(ctx, 6, "row_ids", 1), row_ids_are_distinct_);
        call.engine().ApplyAdagrad(call.stream(), {Scalar(ctx, 3), Scalar(ctx, 4)}, options.dim,
                                   view.planes.rows->data(),
                                   PlaneData(accumulator.get(), options.capacity, options.dim),
                                   gradients.count, gradients.row_ids, gradients.values);
      });
    });
  }

 private:
  const bool row_ids_are_distinct_;
};

SOK_REGISTER_DEVICE_KERNEL(Name("SokApplyAdam")
                               .HostMemory("rows")
                               .HostMemory("state")
                               .HostMemory("table")
                               .HostMemory("step_size")
                               .HostMemory("beta1")
                               .HostMemory("beta2")
                               .HostMemory("epsilon"),
                           ApplyAdamOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokApplyAdagrad")
                               .HostMemory("rows")
                               .HostMemory("accumulator")
                               .HostMemory("table")
                               .HostMemory("learning_rate")
                               .HostMemory("epsilon"),
                           ApplyAdagradOp);

}  // namespace
}  // namespace sok
