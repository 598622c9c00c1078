// SPDX-License-Identifier: Apache-2.0
// Ops that make tables and their planes.
#include <algorithm>
#include <string>
#include <utility>

#include "ops/tf/border.h"
#include "ops/tf/table_attributes.h"
#include "ops/tf/table_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokTableHandle")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Output("table: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("A handle to the table named shared_name.");

REGISTER_OP("SokTableInitialize")
    .Input("table: resource")
    .Input("rows: resource")
    .Input("seed: int64")
    .Attr("table_name: string")
    .Attr("dim: int >= 1")
    .Attr("capacity: int >= 1")
    .Attr("use_hash_index: bool")
    .Attr("num_ranks: int >= 1")
    .Attr("rank: int >= 0")
    .Attr("first_value: {'uniform', 'normal', 'truncated_normal', 'constant', 'preset'}")
    .Attr("low_or_mean: float")
    .Attr("high_or_stddev: float")
    .Attr("keep_existing: bool = false")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the table, empty, with its rows [capacity, dim] in the variable `rows`; with "
        "keep_existing, only if it is not there.");

REGISTER_OP("SokTableAttachSlot")
    .Input("table: resource")
    .Input("slot: resource")
    .Attr("slot_name: string")
    .Attr("capacity: int >= 1")
    .Attr("width: int >= 1")
    .Attr("initial_value: float")
    .Attr("rows_fill_in_order: bool")
    .Attr("keep_existing: bool = false")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the variable `slot` a plane [capacity, width] of the table; rows hold initial_value "
        "when they appear. With keep_existing, only if it is not one.");

REGISTER_OP("SokTableDetachSlot")
    .Input("table: resource")
    .Input("slot: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Makes the table forget the variable `slot`; nothing where one of them is gone already.");

REGISTER_OP("SokTableSize")
    .Input("table: resource")
    .Output("num_keys: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("The number of keys in the table.");

REGISTER_OP("SokTablePreset")
    .Input("table: resource")
    .Input("values: float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Writes values [capacity, dim] to the rows; they are what keys find when a table's first "
        "value is 'preset'.");

REGISTER_OP("SokReadRows")
    .Input("rows: resource")
    .Input("table: resource")
    .Output("values: float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
    .Doc("All rows [capacity, dim], in the order of row ids; rows without a key are zeros.");

class TableInitializeOp : public tf::OpKernel {
 public:
  explicit TableInitializeOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        keep_existing_(Attribute<bool>(ctx, "keep_existing")),
        options_(TableOptionsFrom(ctx)) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      TableOptions options = options_;
      options.first_value.stream =
          FirstValueStream(ctx->input(2).scalar<int64_t>()(), options.name);
      LookupOrMakeTable(ctx, 0)->Initialize(options, LookupOrMakeVariable(ctx, 1), keep_existing_);
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
      LookupOrMakeTable(ctx, 0)->AttachSlot(options_, LookupOrMakeVariable(ctx, 1), keep_existing_);
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
    tf::core::RefCountPtr<TableResource> table;
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
      Output(ctx, 0, {}).scalar<int64_t>()() = LookupTable(ctx, 0)->table()->size();
    });
  }
};

class TablePresetOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] { LookupTable(ctx, 0)->SetPreset(ctx->input(1)); });
  }
};

class ReadRowsOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      OpExecutor executor(ctx);
      LookupTable(ctx, 1)->WithPlanes([&](Table& table, const RowPlanes& planes) {
        table.InsertAll(executor, planes);
        tf::Tensor& values = Output(ctx, 0, {table.options().capacity, table.options().dim});
        std::copy_n(planes.rows, values.NumElements(), Data<float>(values));
      });
    });
  }
};

REGISTER_KERNEL_BUILDER(Name("SokTableHandle").Device(tf::DEVICE_CPU),
                        tf::ResourceHandleOp<TableResource>);
REGISTER_KERNEL_BUILDER(Name("SokTableInitialize").Device(tf::DEVICE_CPU), TableInitializeOp);
REGISTER_KERNEL_BUILDER(Name("SokTableAttachSlot").Device(tf::DEVICE_CPU), TableAttachSlotOp);
REGISTER_KERNEL_BUILDER(Name("SokTableDetachSlot").Device(tf::DEVICE_CPU), TableDetachSlotOp);
REGISTER_KERNEL_BUILDER(Name("SokTableSize").Device(tf::DEVICE_CPU), TableSizeOp);
REGISTER_KERNEL_BUILDER(Name("SokTablePreset").Device(tf::DEVICE_CPU), TablePresetOp);
REGISTER_KERNEL_BUILDER(Name("SokReadRows").Device(tf::DEVICE_CPU), ReadRowsOp);

}  // namespace
}  // namespace sok
