// SPDX-License-Identifier: Apache-2.0
// Ops that move whole tables: to and from SOK's pair of files, out of tensors and into them.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/tf/border.h"
#include "ops/tf/dump_op.h"
#include "ops/tf/exchange_service.h"
#include "ops/tf/key_file.h"
#include "ops/tf/lookup_checks.h"
#include "ops/tf/restored_keys.h"
#include "ops/tf/table_contents.h"
#include "ops/tf/table_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokExportTable")
    .Input("table: resource")
    .Output("keys: int64")
    .Output("rows: float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
    .Doc("All keys of the table with their rows, in the order of row ids.");

REGISTER_OP("SokRowsInUse")
    .Input("table: resource")
    .Output("row_ids: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
    .Doc("The row ids of all keys that the table holds, ascending.");

REGISTER_OP("SokDumpTable")
    .Input("table: resource")
    .Input("keys_path: string")
    .Input("values_path: string")
    .Attr("Tkey: {int64, uint32}")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Writes the keys and, in the same order, their rows; existing files are replaced once both "
        "are complete.");

REGISTER_OP("SokRestoreTable")
    .Input("table: resource")
    .Input("keys_path: string")
    .Input("values_path: string")
    .Attr("Tkey: {int64, uint32}")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the table hold exactly what the files hold. Files that do not fit leave it as it "
        "was.");

REGISTER_OP("SokLoadTable")
    .Input("table: resource")
    .Input("values: float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Makes the table hold exactly the keys 0..n-1 with the rows values [n, dim].");

constexpr int64_t kChunkRows = 1 << 16;

class ExportTableOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      LookupTable(ctx, 0)->WithPlanes([&](Table& table, const RowPlanes& planes) {
        OutputContents(ctx, TableContents(table, planes));
      });
    });
  }
};

class RowsInUseOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const std::vector<int64_t> row_ids = LookupTable(ctx, 0)->table()->Export().row_ids;
      const auto count = static_cast<int64_t>(row_ids.size());
      std::copy(row_ids.begin(), row_ids.end(), Data<int64_t>(Output(ctx, 0, {count})));
    });
  }
};

class DumpTableOp : public DumpOp {
 public:
  using DumpOp::DumpOp;

 protected:
  void WithContents(tf::OpKernelContext* ctx, const UseContents& use) const override {
    LookupTable(ctx, 0)->WithPlanes([&](Table& table, const RowPlanes& planes) {
      use(table.options(), TableContents(table, planes));
    });
  }
};

class RestoreTableOp : public tf::OpKernel {
 public:
  explicit RestoreTableOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        has_narrow_keys_(Attribute<tf::DataType>(ctx, "Tkey") == tf::DT_UINT32) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const std::string keys_path = ctx->input(1).scalar<tf::tstring>()();
      const std::string values_path = ctx->input(2).scalar<tf::tstring>()();
      OpExecutor executor(ctx);
      const auto resource = LookupTable(ctx, 0);
      resource->WithPlanes([&](Table& table, const RowPlanes& planes) {
        const TableOptions& options = table.options();
        const KeyFiles files(ctx->env(), keys_path, values_path, options.dim);
        const std::vector<int64_t> keys = files.ReadKeys();
        std::vector<int64_t> owned;
        std::copy_if(keys.begin(), keys.end(), std::back_inserter(owned),
                     [&](int64_t key) { return IsOwned(options, key); });
        CheckKeysFit(options, owned);
        if (has_narrow_keys_) CheckKeysAreNarrow(options, owned);
        resource->Clear(table, planes);
        files.ForEachChunk(kChunkRows, [&](int64_t first, int64_t count, const float* rows) {
          InsertOwned(executor, table, planes, keys.data() + first, count, rows);
        });
      });
    });
  }

 private:
  static void InsertOwned(Executor& executor, Table& table, const RowPlanes& planes,
                          const int64_t* keys, int64_t count, const float* rows) {
    const int64_t dim = table.options().dim;
    std::vector<int64_t> owned_keys;
    std::vector<float> owned_rows;
    for (int64_t i = 0; i < count; ++i) {
      if (!IsOwned(table.options(), keys[i])) continue;
      owned_keys.push_back(keys[i]);
      owned_rows.insert(owned_rows.end(), rows + i * dim, rows + (i + 1) * dim);
    }
    std::vector<int64_t> row_ids(owned_keys.size());
    table.FindOrInsert(executor, static_cast<int64_t>(owned_keys.size()), owned_keys.data(),
                       /*keys_are_distinct=*/false, owned_rows.data(), planes, row_ids.data());
  }

  const bool has_narrow_keys_;
};

class LoadTableOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& values = ctx->input(1);
      OpExecutor executor(ctx);
      const auto resource = LookupTable(ctx, 0);
      resource->WithPlanes([&](Table& table, const RowPlanes& planes) {
        const TableOptions& options = table.options();
        CheckLoadedValues(options, values);
        std::vector<int64_t> keys;
        for (int64_t key = options.rank; key < values.dim_size(0); key += options.world_size)
          keys.push_back(key);
        CheckKeysFit(options, keys);
        resource->Clear(table, planes);
        std::vector<float> rows;
        for (const int64_t key : keys) {
          const float* row = Data<float>(values) + key * options.dim;
          rows.insert(rows.end(), row, row + options.dim);
        }
        std::vector<int64_t> row_ids(keys.size());
        table.FindOrInsert(executor, static_cast<int64_t>(keys.size()), keys.data(),
                           /*keys_are_distinct=*/true, rows.data(), planes, row_ids.data());
      });
    });
  }
};

REGISTER_KERNEL_BUILDER(Name("SokExportTable").Device(tf::DEVICE_CPU), ExportTableOp);
REGISTER_KERNEL_BUILDER(Name("SokRowsInUse").Device(tf::DEVICE_CPU), RowsInUseOp);
REGISTER_KERNEL_BUILDER(Name("SokDumpTable").Device(tf::DEVICE_CPU), DumpTableOp);
REGISTER_KERNEL_BUILDER(Name("SokRestoreTable").Device(tf::DEVICE_CPU), RestoreTableOp);
REGISTER_KERNEL_BUILDER(Name("SokLoadTable").Device(tf::DEVICE_CPU), LoadTableOp);

}  // namespace
}  // namespace sok
