// SPDX-License-Identifier: Apache-2.0
// GPU kernels of the ops that make tables and their planes; the ops are defined in table_ops.cc.
#include <utility>

#include "ops/tf/border.h"
#include "ops/tf/device_table_resource.h"
#include "ops/tf/table_attributes.h"

namespace sok {
namespace {

namespace tf = tensorflow;

class TableInitializeOp : public tf::OpKernel {
 public:
  explicit TableInitializeOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        keep_existing_(Attribute<bool>(ctx, "keep_existing")),
        options_(TableOptionsFrom(ctx)) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      DeviceCall call(ctx);
      TableOptions options = options_;
      options.first_value.stream =
          FirstValueStream(ctx->input(2).scalar<int64_t>()(), options.name);
      LookupOrMakeDeviceTable(ctx, 0)->Initialize(call, options, LookupOrMakeVariable(ctx, 1),
                                                  keep_existing_);
    });
  }

 private:
  const bool keep_existing_;
  const TableOptions options_;
};

class TableAttachSlotOp : public tf::OpKernel {
 public:
  explicit TableAttachSlotOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        keep_existing_(Attribute<bool>(ctx, "keep_existing")),
        options_(SlotOptionsFrom(ctx)) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      DeviceCall call(ctx);
      LookupOrMakeDeviceTable(ctx, 0)->AttachSlot(call, options_, LookupOrMakeVariable(ctx, 1),
                                                  keep_existing_);
    });
  }

 private:
  const bool keep_existing_;
  const SlotOptions options_;
};

class TableDetachSlotOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    tf::core::RefCountPtr<DeviceTableResource> table;
    tf::core::RefCountPtr<tf::Var> slot;
    if (tf::LookupResource(ctx, tf::HandleFromInput(ctx, 0), &table).ok() &&
        tf::LookupResource(ctx, tf::HandleFromInput(ctx, 1), &slot).ok()) {
      table->DetachSlot(slot.get());
    }
  }
};

class TableSizeOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      DeviceCall call(ctx);
      LookupDeviceTable(ctx, 0)->WithPlanes(call, [&](const DeviceView& view) {
        Output(ctx, 0, {}).scalar<int64_t>()() = view.table.size(call.stream()).num_keys;
      });
    });
  }
};

class TablePresetOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      DeviceCall call(ctx);
      LookupDeviceTable(ctx, 0)->SetPreset(call, ctx->input(1));
    });
  }
};

/// Reads slots, too: the plane of any of the table's variables.
class ReadRowsOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      DeviceCall call(ctx);
      const auto variable = LookupVariable(ctx, 0);
      LookupDeviceTable(ctx, 1)->WithPlanes(call, [&](const DeviceView& view) {
        view.table.InsertAll(call.stream(), view.planes);
        const EnginePlane& plane = PlaneOf(view, variable.get());
        const int64_t width = plane.width();
        const int64_t capacity = view.table.options().capacity;
        const int64_t num_rows = view.NumWrittenRows(call, plane);
        float* values = Data<float>(Output(ctx, 0, {capacity, width}));
        call.engine().CopyOnDevice(call.stream(), values, plane.data(),
                                   num_rows * width * static_cast<int64_t>(sizeof(float)));
        call.engine().Fill(call.stream(), values + num_rows * width, (capacity - num_rows) * width,
                           0.0f);
      });
    });
  }

 private:
  const EnginePlane& PlaneOf(const DeviceView& view, const tf::Var* variable) const {
    if (view.variables.front() == variable) return *view.planes.rows;
    for (size_t i = 0; i < view.planes.slots.size(); ++i) {
      if (view.variables[i + 1] == variable) return *view.planes.slots[i].plane;
    }
    Throw(ErrorCode::kFailedPrecondition, name(),
          ": the variable is not a slot of the table in this session: run its initializer "
          "(tf.global_variables_initializer()) first");
  }
};

SOK_REGISTER_DEVICE_KERNEL(Name("SokTableHandle").HostMemory("table"),
                           tf::ResourceHandleOp<DeviceTableResource>);
SOK_REGISTER_DEVICE_KERNEL(
    Name("SokTableInitialize").HostMemory("table").HostMemory("rows").HostMemory("seed"),
    TableInitializeOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokTableAttachSlot").HostMemory("table").HostMemory("slot"),
                           TableAttachSlotOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokTableDetachSlot").HostMemory("table").HostMemory("slot"),
                           TableDetachSlotOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokTableSize").HostMemory("table").HostMemory("num_keys"),
                           TableSizeOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokTablePreset").HostMemory("table"), TablePresetOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokReadRows").HostMemory("rows").HostMemory("table"), ReadRowsOp);

}  // namespace
}  // namespace sok
