// SPDX-License-Identifier: Apache-2.0
// Ops of the forward pass: keys to distinct keys, to row ids, to pooled rows.
#include <string>
#include <vector>

#include "ops/lookup/bags.h"
#include "ops/lookup/distinct.h"
#include "ops/lookup/pool_rows.h"
#include "ops/tf/bags_input.h"
#include "ops/tf/border.h"
#include "ops/tf/exchange_service.h"
#include "ops/tf/lookup_checks.h"
#include "ops/tf/row_pointers.h"
#include "ops/tf/table_resource.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

REGISTER_OP("SokRowSplits")
    .Input("indices: int64")
    .Input("dense_shape: int64")
    .Input("num_values: int64")
    .Attr("layer_name: string")
    .Attr("slot_num: int >= 1")
    .Attr("max_nnz: int >= 1")
    .Output("row_splits: int64")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
    .Doc(
        "Checks the indices [num_keys, 2] of a SparseTensor, that it has as many values, and gives "
        "its row splits [num_rows + 1].");

REGISTER_OP("SokDistinctKeys")
    .Input("keys: Tkey")
    .Attr("Tkey: {int64, uint32}")
    .Output("distinct_keys: int64")
    .Output("inverse: int32")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle keys;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &keys));
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, keys);
      return absl::OkStatus();
    })
    .Doc(
        "The distinct keys in the order of their first appearance, and for each key its place "
        "among them.");

REGISTER_OP("SokFindRows")
    .Input("table: resource")
    .Input("keys: int64")
    .Attr("insert: bool")
    .Attr("keys_are_distinct: bool")
    .Output("row_ids: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(1));
      return absl::OkStatus();
    })
    .Doc(
        "The row of each key. A key not held gets a row with its first value if `insert`, else the "
        "row id -1. `keys_are_distinct`: they are known to be.");

REGISTER_OP("SokInsertRows")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("initial_rows: float")
    .Output("row_ids: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(1));
      return absl::OkStatus();
    })
    .Doc(
        "As SokFindRows with `insert`, but the row of a key not held starts as initial_rows "
        "[num_keys, dim] says.");

REGISTER_OP("SokPoolRows")
    .Input("rows: resource")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("row_ids: int64")
    .Input("absent_rows: float")
    .Input("inverse: int32")
    .Input("row_splits: int64")
    .Attr("combiner: {'none', 'sum', 'mean'}")
    .Attr("dim: int >= 1")
    .Attr("all_keys_have_rows: bool")
    .Output("output: float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int64_t dim = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      c->set_output(0, c->Matrix(InferenceContext::kUnknownDim, dim));
      return absl::OkStatus();
    })
    .Doc(
        "The pooled rows of each bag [num_bags, dim]; combiner 'none': of each occurrence. For "
        "keys with the row id -1 "
        "absent_rows [number of such keys, dim] are used, or, if it is empty, their first values.");

REGISTER_OP("SokPoolReceivedRows")
    .Input("rows: float")
    .Input("inverse: int32")
    .Input("row_splits: int64")
    .Input("mean_splits: int64")
    .Attr("combiner: {'none', 'sum', 'mean'}")
    .Output("output: float")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle rows;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &rows));
      c->set_output(0, c->Matrix(InferenceContext::kUnknownDim, c->Dim(rows, 1)));
      return absl::OkStatus();
    })
    .Doc(
        "As SokPoolRows, for rows [number of answers, dim] that other ranks have sent. A mean "
        "divides by the sizes that mean_splits gives, since a row may be a sum of several.");

// A bag without keys has a row in the output, too.
constexpr int64_t kMaxBags = kMaxBatchKeys;

class RowSplitsOp : public tf::OpKernel {
 public:
  explicit RowSplitsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        layer_name_(Attribute<std::string>(ctx, "layer_name")),
        slot_num_(Attribute<int64_t>(ctx, "slot_num")),
        max_nnz_(Attribute<int64_t>(ctx, "max_nnz")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& indices = InputOfRank(ctx, 0, "indices", 2);
      const tf::Tensor& dense_shape = InputOfRank(ctx, 1, "dense_shape", 1);
      if (indices.dim_size(1) != 2 || dense_shape.NumElements() != 2) {
        Throw(ErrorCode::kInvalidArgument, layer_name_,
              ": the SparseTensor must have rank 2 [batch * slot_num, max_nnz], got rank ",
              dense_shape.NumElements());
      }
      const int64_t num_values = ctx->input(2).scalar<int64_t>()();
      if (num_values != indices.dim_size(0)) {
        Throw(ErrorCode::kInvalidArgument, layer_name_, ": the SparseTensor has ",
              indices.dim_size(0), " indices and ", num_values,
              " values; they must have the same length");
      }
      const int64_t num_bags = dense_shape.vec<int64_t>()(0);
      if (num_bags > kMaxBags) {
        Throw(ErrorCode::kInvalidArgument, layer_name_, ": a SparseTensor may have ", kMaxBags,
              " rows (dense_shape[0]), got ", num_bags);
      }
      if (num_bags < 0 || num_bags % slot_num_ != 0) {
        Throw(ErrorCode::kInvalidArgument, layer_name_, ": the SparseTensor has ", num_bags,
              " rows (dense_shape[0]), which is not a multiple of slot_num = ", slot_num_,
              "; its rows are sample * slot_num + slot");
      }
      tf::Tensor& row_splits = Output(ctx, 0, {num_bags + 1});
      RowSplitsFromIndices(layer_name_, indices.dim_size(0), Data<int64_t>(indices), num_bags,
                           max_nnz_, Data<int64_t>(row_splits));
    });
  }

 private:
  const std::string layer_name_;
  const int64_t slot_num_;
  const int64_t max_nnz_;
};

template <typename Key>
class DistinctKeysOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, 0, "keys", 1);
      CheckBatchOfKeys(name(), keys.NumElements());
      OpExecutor executor(ctx);
      tf::Tensor& inverse = Output(ctx, 1, keys.shape());
      tf::Tensor room;
      ThrowIfError(ctx->allocate_temp(tf::DT_INT64, keys.shape(), &room));
      const int64_t num_distinct =
          Distinct<Key>(executor, keys.NumElements(), reinterpret_cast<const Key*>(keys.data()),
                        Data<int64_t>(room), Data<int32_t>(inverse));
      ctx->set_output(0, room.Slice(0, num_distinct));
    });
  }
};

class FindRowsOp : public tf::OpKernel {
 public:
  explicit FindRowsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        insert_(Attribute<bool>(ctx, "insert")),
        keys_are_distinct_(Attribute<bool>(ctx, "keys_are_distinct")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, 1, "keys", 1);
      const int64_t num_keys = keys.NumElements();
      int64_t* row_ids = Data<int64_t>(Output(ctx, 0, keys.shape()));
      OpExecutor executor(ctx);
      const auto resource = LookupTable(ctx, 0);
      if (!insert_) {
        resource->table()->Find(executor, num_keys, Data<int64_t>(keys), row_ids);
        return;
      }
      resource->WithPlanes([&](Table& table, const RowPlanes& planes) {
        table.FindOrInsert(executor, num_keys, Data<int64_t>(keys), keys_are_distinct_, nullptr,
                           planes, row_ids);
      });
    });
  }

 private:
  const bool insert_;
  const bool keys_are_distinct_;
};

class InsertRowsOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, 1, "keys", 1);
      const tf::Tensor& initial_rows = InputOfRank(ctx, 2, "initial_rows", 2);
      int64_t* row_ids = Data<int64_t>(Output(ctx, 0, keys.shape()));
      OpExecutor executor(ctx);
      LookupTable(ctx, 0)->WithPlanes([&](Table& table, const RowPlanes& planes) {
        CheckInitialRows(table.options(), keys, initial_rows);
        table.FindOrInsert(executor, keys.NumElements(), Data<int64_t>(keys),
                           /*keys_are_distinct=*/false, Data<float>(initial_rows), planes, row_ids);
      });
    });
  }
};

class PoolRowsOp : public tf::OpKernel {
 public:
  explicit PoolRowsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), combiner_(ParseCombiner(Attribute<std::string>(ctx, "combiner"))) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const auto variable = LookupVariable(ctx, 0);
      const std::shared_ptr<Table> table = LookupTable(ctx, 1)->table();
      const TableOptions& options = table->options();
      const tf::Tensor& row_ids = InputOfRank(ctx, 3, "row_ids", 1);
      const Bags bags =
          BagsFromInputs(combiner_, row_ids.NumElements(), InputOfRank(ctx, 5, "inverse", 1),
                         InputOfRank(ctx, 6, "row_splits", 1));
      tf::Tensor& output = Output(ctx, 0, {bags.num_bags, options.dim});
      OpExecutor executor(ctx);
      SharedLocks locks({variable.get()});
      const float* rows = PlaneData(variable.get(), options.capacity, options.dim);
      const RowPointers pointers(executor, *table, rows, InputOfRank(ctx, 2, "keys", 1), row_ids,
                                 InputOfRank(ctx, 4, "absent_rows", 2));
      PoolRows(executor, bags, options.dim, pointers.data(), Data<float>(output));
    });
  }

 private:
  const Combiner combiner_;
};

class PoolReceivedRowsOp : public tf::OpKernel {
 public:
  explicit PoolReceivedRowsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), combiner_(ParseCombiner(Attribute<std::string>(ctx, "combiner"))) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& rows = InputOfRank(ctx, 0, "rows", 2);
      const int64_t dim = rows.dim_size(1);
      const Bags bags = BagsFromInputs(
          combiner_, rows.dim_size(0), InputOfRank(ctx, 1, "inverse", 1),
          InputOfRank(ctx, 2, "row_splits", 1), &InputOfRank(ctx, 3, "mean_splits", 1));
      std::vector<const float*> pointers(static_cast<size_t>(bags.num_distinct));
      for (size_t i = 0; i < pointers.size(); ++i) {
        pointers[i] = Data<float>(rows) + static_cast<int64_t>(i) * dim;
      }
      tf::Tensor& output = Output(ctx, 0, {bags.num_bags, dim});
      OpExecutor executor(ctx);
      PoolRows(executor, bags, dim, pointers.data(), Data<float>(output));
    });
  }

 private:
  const Combiner combiner_;
};

REGISTER_KERNEL_BUILDER(Name("SokPoolReceivedRows").Device(tf::DEVICE_CPU), PoolReceivedRowsOp);
REGISTER_KERNEL_BUILDER(Name("SokRowSplits").Device(tf::DEVICE_CPU), RowSplitsOp);
// On a GPU: indices come from the host, as what is read from files does.
REGISTER_KERNEL_BUILDER(Name("SokRowSplits")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("indices")
                            .HostMemory("dense_shape")
                            .HostMemory("num_values")
                            .HostMemory("row_splits"),
                        RowSplitsOp);
REGISTER_KERNEL_BUILDER(
    Name("SokDistinctKeys").Device(tf::DEVICE_CPU).TypeConstraint<int64_t>("Tkey"),
    DistinctKeysOp<int64_t>);
REGISTER_KERNEL_BUILDER(
    Name("SokDistinctKeys").Device(tf::DEVICE_CPU).TypeConstraint<uint32_t>("Tkey"),
    DistinctKeysOp<uint32_t>);
REGISTER_KERNEL_BUILDER(Name("SokFindRows").Device(tf::DEVICE_CPU), FindRowsOp);
REGISTER_KERNEL_BUILDER(Name("SokInsertRows").Device(tf::DEVICE_CPU), InsertRowsOp);
REGISTER_KERNEL_BUILDER(Name("SokPoolRows").Device(tf::DEVICE_CPU), PoolRowsOp);

}  // namespace
}  // namespace sok
