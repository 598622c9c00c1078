// SPDX-License-Identifier: Apache-2.0
// Ops that move whole tables to and from tensors, through the host's memory.
#include <algorithm>
#include <memory>
#include <vector>

#include "ops/engine/restored_keys.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/lookup_checks.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/checkpoint/dump/dump_attributes.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "ops/tf/tables/contents/table_from_rows.h"
#include "ops/tf/tables/resource/table_attributes.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

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

class ExportTableOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      OpCall call(ctx);
      const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
      resource->NoteStep(ctx);
      resource->WithPlanes(call, [&](const TableView& view) {
        TableContents contents(call, view);
        const int64_t size = contents.size();
        int64_t* keys = Data<int64_t>(Output(ctx, "keys", {size}));
        contents.Read(0, 0, size, keys);
        contents.Read(1, 0, size, Data<float>(Output(ctx, "rows", {size, view.options().dim})));
      });
    });
  }
};

class RowsInUseOp : public tf::OpKernel {
 public:
  explicit RowsInUseOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), insert_all_(Attribute<bool>(ctx, "insert_all")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      OpCall call(ctx);
      const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
      resource->NoteStep(ctx);
      if (insert_all_) {
        resource->WithRoom(call, 0,
                           [&](const TableView& view) { view.table.InsertAll(call, view.planes); });
      }
      resource->WithTable([&](const TableView& view) {
        const TableEntries held = view.table.Export(call);
        call.engine().CopyOnDevice(call, Data<int64_t>(Output(ctx, "row_ids", {held.count})),
                                   held.row_ids,
                                   held.count * static_cast<int64_t>(sizeof(int64_t)));
      });
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
      std::vector<int64_t> keys, places;  // that this rank owns, and where they stand
      for (int64_t i = 0; i < given.NumElements(); ++i) {
        if (!options.placement.IsOwned(Data<int64_t>(given)[i])) continue;
        keys.push_back(Data<int64_t>(given)[i]);
        places.push_back(i);
      }
      CheckKeysFit(options, keys, keys_);
      const auto num_keys = static_cast<int64_t>(keys.size());
      const int64_t most = std::min(num_keys, RowsOfPart(options.dim)), dim = options.dim;
      TableFromRows filled(call, fresh, num_keys, most, /*are_distinct=*/true);
      std::vector<float> rows(static_cast<size_t>(most * dim));
      for (int64_t first = 0; first < num_keys; first += most) {
        const int64_t count = std::min(most, num_keys - first);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t place = places[static_cast<size_t>(first + i)];
          std::copy_n(Data<float>(values) + place * dim, dim, rows.data() + i * dim);
        }
        filled.Insert(count, keys.data() + first,
                      [&](size_t column) { return column == 0 ? rows.data() : nullptr; });
      }
      communicator.Share();
    });
  }

 private:
  const KeysOf keys_;
};

const RegisteredKernel kContentsKernels[] = {
    {"SokExportTable", Make<ExportTableOp>, {"table", "keys", "rows"}},
    {"SokRowsInUse", Make<RowsInUseOp>, {"table"}},
    {"SokLoadTable", Make<LoadTableOp>, {"table", "keys", "values", "collectives"}},
};

}  // namespace
}  // namespace sok
