// SPDX-License-Identifier: Apache-2.0
// Ops of the forward pass: keys to distinct keys, to row ids, to pooled rows.
#include <string>
#include <vector>

#include "ops/lookup/bags.h"
#include "ops/lookup/distinct.h"
#include "ops/lookup/pool_rows.h"
#include "ops/tf/bags_input.h"
#include "ops/tf/border.h"
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
    .Attr("layer_name: string")
    .Attr("slot_num: int >= 1")
    .Attr("max_nnz: int >= 1")
    .Output("row_splits: int64")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
    .Doc(
        "Checks the indices [num_keys, 2] of a SparseTensor and gives its row splits [num_rows + "
        "1].");

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
    .Output("row_ids: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(1));
      return absl::OkStatus();
    })
    .Doc(
        "The row of each key. A key not held gets a row with its first value if `insert`, else the "
        "row id -1.");

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

class RowSplitsOp : public tf::OpKernel {
 public:
  explicit RowSplitsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        layer_name_(Attribute<std::string>(ctx, "layer_name")),
        slot_num_(Attribute<int64_t>(ctx, "slot_num")),
        max_nnz_(Attribute<int64_t>(ctx, "max_nnz")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& indices = InputOfRank(ctx, 0, "indices", 2);
      const tf::Tensor& dense_shape = InputOfRank(ctx, 1, "dense_shape", 1);
      if (indices.dim_size(1) != 2 || dense_shape.NumElements() != 2) {
        Throw(ErrorCode::kInvalidArgument, layer_name_,
              ": the SparseTensor must have rank 2 [batch * slot_num, max_nnz], got rank ",
              dense_shape.NumElements());
      }
      const int64_t num_bags = dense_shape.vec<int64_t>()(0);
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
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, 0, "keys", 1);
      if (keys.NumElements() > kMaxBatchKeys) {
        Throw(ErrorCode::kInvalidArgument, name(), ": a batch may have ", kMaxBatchKeys,
              " keys, got ", keys.NumElements());
      }
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
      : tf::OpKernel(ctx), insert_(Attribute<bool>(ctx, "insert")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
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
        table.FindOrInsert(executor, num_keys, Data<int64_t>(keys), nullptr, planes, row_ids);
      });
    });
  }

 private:
  const bool insert_;
};

class InsertRowsOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, 1, "keys", 1);
      const tf::Tensor& initial_rows = InputOfRank(ctx, 2, "initial_rows", 2);
      int64_t* row_ids = Data<int64_t>(Output(ctx, 0, keys.shape()));
      OpExecutor executor(ctx);
      LookupTable(ctx, 0)->WithPlanes([&](Table& table, const RowPlanes& planes) {
        const TableOptions& options = table.options();
        if (initial_rows.dim_size(0) != keys.NumElements() ||
            initial_rows.dim_size(1) != options.dim) {
          Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': rows for ",
                keys.NumElements(), " keys must have shape [", keys.NumElements(), ", ",
                options.dim, "], got ", initial_rows.shape().DebugString());
        }
        table.FindOrInsert(executor, keys.NumElements(), Data<int64_t>(keys),
                           Data<float>(initial_rows), planes, row_ids);
      });
    });
  }
};

/// Where each distinct key's row is read: in the plane, or, for keys without a row, in
/// `absent_rows`, or, if these are empty, in first values made here.
class RowPointers {
 public:
  RowPointers(const Table& table, const float* rows, const tf::Tensor& keys,
              const tf::Tensor& row_ids, const tf::Tensor& absent_rows)
      : pointers_(static_cast<size_t>(row_ids.NumElements())) {
    const TableOptions& options = table.options();
    const int64_t* ids = Data<int64_t>(row_ids);
    std::vector<size_t> absent;
    for (size_t i = 0; i < pointers_.size(); ++i) {
      if (ids[i] == kNoRow) {
        absent.push_back(i);
      } else {
        pointers_[i] = rows + ids[i] * options.dim;
      }
    }
    if (absent_rows.dim_size(0) == 0) {
      MakeFirstValues(table, rows, Data<int64_t>(keys), absent);
      return;
    }
    if (absent_rows.dim_size(0) != static_cast<int64_t>(absent.size()) ||
        absent_rows.dim_size(1) != options.dim) {
      Throw(ErrorCode::kInvalidArgument, "table '", options.name,
            "': the initializer gave rows of shape ", absent_rows.shape().DebugString(),
            ", expected [", absent.size(), ", ", options.dim, "]");
    }
    for (size_t j = 0; j < absent.size(); ++j) {
      pointers_[absent[j]] = Data<float>(absent_rows) + static_cast<int64_t>(j) * options.dim;
    }
  }

  const float* const* data() const { return pointers_.data(); }

 private:
  void MakeFirstValues(const Table& table, const float* rows, const int64_t* keys,
                       const std::vector<size_t>& absent) {
    const TableOptions& options = table.options();
    first_values_.resize(absent.size() * static_cast<size_t>(options.dim));
    const bool is_preset = options.first_value.kind == FirstValue::Kind::kPreset;
    int64_t next_row = table.num_rows();
    for (size_t j = 0; j < absent.size(); ++j, ++next_row) {
      const int64_t key = keys[absent[j]];
      float* row = first_values_.data() + j * static_cast<size_t>(options.dim);
      WriteFirstValue(options.first_value, key, options.dim, row);
      const int64_t row_id = options.use_hash_index ? next_row : key / options.world_size;
      const bool has_preset = is_preset && row_id < options.capacity;
      pointers_[absent[j]] = has_preset ? rows + row_id * options.dim : row;
    }
  }

  std::vector<const float*> pointers_;
  std::vector<float> first_values_;
};

class PoolRowsOp : public tf::OpKernel {
 public:
  explicit PoolRowsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), combiner_(ParseCombiner(Attribute<std::string>(ctx, "combiner"))) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
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
      const RowPointers pointers(*table, rows, InputOfRank(ctx, 2, "keys", 1), row_ids,
                                 InputOfRank(ctx, 4, "absent_rows", 2));
      PoolRows(executor, bags, options.dim, pointers.data(), Data<float>(output));
    });
  }

 private:
  const Combiner combiner_;
};

REGISTER_KERNEL_BUILDER(Name("SokRowSplits").Device(tf::DEVICE_CPU), RowSplitsOp);
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
