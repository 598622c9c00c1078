// SPDX-License-Identifier: Apache-2.0
// Ops that move whole tables to and from tensors, through the host's memory.
#include <algorithm>
#include <array>
#include <vector>

#include "ops/engine/restored_keys.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/lookup_checks.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/checkpoint/dump/dump_attributes.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "ops/tf/tables/contents/rows_to_sink.h"
#include "ops/tf/tables/contents/table_from_rows.h"
#include "ops/tf/tables/resource/table_attributes.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

REGISTER_OP("SokExportTable")
    .Input("table: resource")
    .Output("keys: int64")
    .Output("rows: float")
    .SetIsStateful()
    .SetShapeFn(VectorAndMatrices)
    .Doc("All keys of the table with their rows, in the order of row ids.");

REGISTER_OP("SokRowsInUse")
    .Input("table: resource")
    .Attr("insert_all: bool = false")
    .Output("row_ids: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "The row ids of all keys in the table, ascending. `insert_all`: a table without a hash "
        "index first inserts all keys, so that its row ids are 0, 1, ...");

REGISTER_OP("SokLoadTable")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("values: float") SOK_COLLECTIVES.Attr("Tkey: {int64, uint32, int32} = DT_INT64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the table hold exactly those of the keys [n] that it owns, with their rows "
        "`values` [n, dim], on all ranks or on none. `collectives`: one if other ranks take part, "
        "else empty.");

/// The output tensors.
class OutputSink : public RowsSink {
 public:
  OutputSink(tf::OpKernelContext* ctx, int64_t count, int64_t dim)
      : data_{reinterpret_cast<char*>(Data<int64_t>(Output(ctx, "keys", {count}))),
              reinterpret_cast<char*>(Data<float>(Output(ctx, "rows", {count, dim})))} {}

  void Begin(size_t column, int64_t /*width*/) override { next_ = data_[column]; }
  char* Buffer(size_t /*num_bytes*/) override { return next_; }
  void Append(size_t num_bytes) override { next_ += num_bytes; }
  void End() override {}

 private:
  const std::array<char*, 2> data_;
  char* next_ = nullptr;
};

/// The rows of given keys that this rank owns.
class GivenRows : public RowsSource {
 public:
  GivenRows(const TableOptions& options, const tf::Tensor& keys, const tf::Tensor& rows)
      : dim_(options.dim), rows_(Data<float>(rows)) {
    for (int64_t i = 0; i < keys.NumElements(); ++i) {
      if (!options.placement.IsOwned(Data<int64_t>(keys)[i])) continue;
      keys_.push_back(Data<int64_t>(keys)[i]);
      places_.push_back(i);
    }
  }

  const std::vector<int64_t>& keys() const { return keys_; }
  int64_t num_keys() const override { return static_cast<int64_t>(keys_.size()); }
  void ForEachBlock(const Use& use, const Place& /*place*/) override {
    const int64_t most = std::min(num_keys(), RowsOfPart(dim_));
    std::vector<float> rows(static_cast<size_t>(most * dim_));
    for (int64_t first = 0; first < num_keys(); first += most) {
      const int64_t count = std::min(most, num_keys() - first);
      for (int64_t i = 0; i < count; ++i)
        std::copy_n(rows_ + places_[static_cast<size_t>(first + i)] * dim_, dim_,
                    rows.data() + i * dim_);
      use({count, {keys_.data() + first, rows.data()}, {8, dim_ * int64_t{sizeof(float)}}});
    }
  }

 private:
  const int64_t dim_;
  const float* const rows_;
  std::vector<int64_t> keys_, places_;
};

void ExportTable(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  resource->NoteStep(ctx);
  resource->WithPlanes(call, [&](const TableView& view) {
    std::vector<Column> columns = ColumnsOf(call, view, Element::kFloat32);
    columns.resize(1);
    const auto write = [&](KeysInOrder&& keys) {
      OutputSink sink(ctx, keys.count(), view.options().dim);
      MoveRows(keys, columns, sink);
    };
    if (view.options().use_hash_index) {  // steps may insert keys meanwhile
      write(Entries(call, view.table.Export(call)));
    } else {
      write(KeyRange(call, view, INT64_MAX, &columns));
    }
  });
}

class RowsInUse {
 public:
  explicit RowsInUse(tf::OpKernelConstruction* ctx)
      : insert_all_(Attribute<bool>(ctx, "insert_all")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    OpCall call(ctx);
    const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
    resource->NoteStep(ctx);
    if (insert_all_) {
      resource->WithRoom(call, 0,
                         [&](const TableView& view) { view.table.InsertAll(call, view.planes); });
    }
    resource->WithTable([&](const TableView& view) {
      const TableEntries entries = view.table.Export(call);
      call.engine().CopyOnDevice(call, Data<int64_t>(Output(ctx, "row_ids", {entries.count})),
                                 entries.row_ids,
                                 entries.count * static_cast<int64_t>(sizeof(int64_t)));
    });
  }

 private:
  const bool insert_all_;
};

class LoadTableOp : public WholeTableOp {
 public:
  explicit LoadTableOp(tf::OpKernelConstruction* ctx) : WholeTableOp(ctx), keys_(KindOfKeys(ctx)) {}

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    const tf::Tensor& given = Input(ctx, "keys");
    const tf::Tensor& values = Input(ctx, "values");
    communicator.Begin();
    communicator.AwaitTurn();
    table.Replace(call, {}, [&](const TableView& view, const TableView& fresh) {
      communicator.GiveTurn();
      const TableOptions& options = view.options();
      CheckLoadedValues(options, given, values);
      GivenRows source(options, given, values);
      CheckKeysFit(options, source.keys(), keys_);
      TableFromRows filled(call, fresh, source.num_keys(), source.num_keys());
      filled.Fill(source, TableFromRows::Keys::kInserted, [](const RowsBlock&) {});
      communicator.Share();
    });
  }

 private:
  const KeysOf keys_;
};

const RegisteredKernel kContentsKernels[] = {
    {"SokExportTable", Make<KernelOf<Calls<ExportTable>>>, {"table", "keys", "rows"}},
    {"SokRowsInUse", Make<KernelOf<RowsInUse>>, {"table"}},
    {"SokLoadTable", Make<LoadTableOp>, {"table", "keys", "values", "collectives"}},
};

}  // namespace
}  // namespace sok
