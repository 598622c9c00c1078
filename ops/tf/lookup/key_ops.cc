// SPDX-License-Identifier: Apache-2.0
// Ops from keys to row ids: distinct keys, and the rows of keys in their tables.
#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/lookup_checks.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/owning_tensor.h"
#include "ops/tf/base/step_failure.h"
#include "ops/tf/ranks/collective_handle.h"
#include "ops/tf/tables/resource/absent_rows.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

REGISTER_OP("SokDistinctKeys")
    .Input("keys: Tkeys")
    .Attr("N: int >= 1")
    .Attr("Tkeys: list({int64, uint32, int32}) >= 1")
    .Output("distinct_keys: N * int64")
    .Output("inverse: N * int32")
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_inputs(); ++i) {
        ShapeHandle keys;
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &keys));
        c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
        c->set_output(c->num_inputs() + i, keys);
      }
      return absl::OkStatus();
    })
    .Doc(
        "The distinct keys of each item in the order of their first appearance, and the index of "
        "each key among them.");

REGISTER_OP("SokFindRows")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("collectives: num_collectives * variant")
    .Attr("N: int >= 1")
    .Attr("num_collectives: int >= 0 = 0")
    .Attr("insert: bool")
    .Attr("keys_are_distinct: bool")
    .Attr("uses_keys: bool = false")
    .Output("row_ids: N * int64")
    .SetIsStateful()
    .SetShapeFn(ShapesOfSecondList)
    .Doc(
        "The row of each key. A key without a row gets one with its first value if `insert`, "
        "else the row id -1. `keys_are_distinct`: the caller guarantees that the keys of each "
        "item are distinct. If an item fails, its table is unchanged, but keys of items before "
        "it have been inserted. `uses_keys`: without `insert`, too, a table with max_keys records "
        "the use of keys that have rows. `collectives`: the lookup's collective, if other ranks "
        "take "
        "part. While a checkpoint is written, steps that have not begun wait here.");

REGISTER_OP("SokInsertAbsent")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("found: N * int64")
    .Input("absent_rows: N * float")
    .Attr("N: int >= 1")
    .Attr("rows_are_given: list(bool)")
    .Output("row_ids: N * int64")
    .SetIsStateful()
    .SetShapeFn(ShapesOfSecondList)
    .Doc(
        "Assigns rows to keys that have none: those whose row id in `found`, from SokFindRows, "
        "is -1. The keys of each item are distinct. rows_are_given: absent_rows are the initial "
        "rows of these keys, in their order; otherwise rows start at their first values. If an "
        "item fails, its table is unchanged, "
        "but keys of items before it have been inserted.");

REGISTER_OP("SokInsertRows")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("initial_rows: float")
    .Output("row_ids: int64")
    .SetIsStateful()
    .SetShapeFn(ShapesOfSecondList)
    .Doc(
        "As SokFindRows with `insert`, but the row of a new key starts as given in initial_rows "
        "[num_keys, dim].");

class DistinctKeys {
 public:
  explicit DistinctKeys(tf::OpKernelConstruction* ctx) {
    ItemAttributes<tf::DataType>(ctx, "Tkeys");
  }

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    ForEachItemAtOnce(ctx, "keys", [&](OpCall& call, int i) {
      const tf::Tensor& keys = group.Vector("keys", i);
      CheckBatchOfKeys(group.name(), keys.NumElements());
      int32_t* inverse = Data<int32_t>(group.Output("inverse", i, keys.shape()));
      tf::Tensor buffer;
      ThrowIfError(ctx->allocate_temp(tf::DT_INT64, keys.shape(), &buffer));
      const int64_t num_distinct = call.engine().DistinctKeys(
          call, keys.NumElements(), KeysIn(keys), Data<int64_t>(buffer), inverse);
      group.SetOutput("distinct_keys", i, buffer.Slice(0, num_distinct));
    });
  }

 private:
  static KeysOfAnyType KeysIn(const tf::Tensor& keys) {
    switch (keys.dtype()) {
      case tf::DT_UINT32:
        return static_cast<const uint32_t*>(keys.data());
      case tf::DT_INT32:
        return static_cast<const int32_t*>(keys.data());
      default:
        return static_cast<const int64_t*>(keys.data());
    }
  }
};

/// A step begins to use tables with this op.
class FindRowsOp : public tf::AsyncOpKernel {
 public:
  explicit FindRowsOp(tf::OpKernelConstruction* ctx)
      : tf::AsyncOpKernel(ctx),
        insert_(Attribute<bool>(ctx, "insert")),
        keys_are_distinct_(Attribute<bool>(ctx, "keys_are_distinct")),
        uses_keys_(Attribute<bool>(ctx, "uses_keys")) {}

  void ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) override {
    const auto find = [this, ctx, done](const absl::Status& status) {
      FailStepOnThrow(ctx, [&] {
        ThrowIfError(status);
        FindAll(ctx);
      });
      done();
    };
    // Only `find` uses `ctx` from here on: if the step waits, the op may have ended by now.
    struct {
      absl::Status status;
      void CtxFailure(const absl::Status& failure) { status = failure; }
    } entered;
    bool may_go_on = false;
    FailOpOnThrow(&entered,
                  [&] { may_go_on = SessionSteps::Of(ctx)->Enter(ctx, CollectivesIn(ctx), find); });
    if (may_go_on || !entered.status.ok()) find(entered.status);
  }

 private:
  static std::vector<CollectiveId> CollectivesIn(tf::OpKernelContext* ctx) {
    const std::shared_ptr<const CollectiveHandle> handle = OptionalCollective(ctx);
    if (!handle) return {};
    return {handle->collective().id};
  }

  void FindAll(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    std::vector<tf::Tensor*> row_ids;
    for (int i = 0; i < group.size(); ++i)
      row_ids.push_back(&group.Output("row_ids", i, group.Vector("keys", i).shape()));
    const auto find = [&](OpCall& call, int i) {
      Find(ctx, call, group, i, *row_ids[static_cast<size_t>(i)]);
    };
    if (insert_ || uses_keys_) {  // if an item fails, later ones must insert nothing
      if (insert_) NoteUsesOfLaterItems(ctx, group);
      ForEachItem(ctx, find);
      return;
    }
    const auto try_find = [&](OpCall& call, int i) {
      return LookupTable(ctx, group.Handle("tables", i))
          ->TryFind(call, group.Input("keys", i), row_ids[static_cast<size_t>(i)]);
    };
    TryEachItemAtOnce(ctx, "keys", try_find, find);
  }

  /// An item must not evict keys that a later one of its table finds.
  static void NoteUsesOfLaterItems(tf::OpKernelContext* ctx, const Group& group) {
    std::set<TableResource*> seen;
    ForEachItem(ctx, [&](OpCall& call, int i) {
      const auto resource = LookupTable(ctx, group.Handle("tables", i));
      if (seen.insert(resource.get()).second) return;
      bool limits_keys = false;
      resource->WithTable([&](const TableView& view) { limits_keys = view.limits_keys(); });
      if (!limits_keys) return;
      const tf::Tensor& keys = group.Input("keys", i);
      resource->Find(call, resource->ArrivalOf(ctx, Arrival::Purpose::kUse, keys),
                     call.Temporary<int64_t>(keys.NumElements()));
    });
  }

  void Find(tf::OpKernelContext* ctx, OpCall& call, const Group& group, int i,
            tf::Tensor& output) const {
    using Purpose = Arrival::Purpose;
    const auto resource = LookupTable(ctx, group.Handle("tables", i));
    const Purpose purpose = insert_      ? Purpose::kInsert
                            : uses_keys_ ? Purpose::kUse
                                         : Purpose::kFind;
    Arrival arrival = resource->ArrivalOf(ctx, purpose, group.Input("keys", i));
    arrival.keys_are_distinct = keys_are_distinct_;
    auto* row_ids = Data<int64_t>(output);
    if (insert_) {
      resource->WithRoom(call, arrival.num_keys,
                         [&](const TableView& view) { view.Arrive(call, arrival, row_ids); });
    } else {
      resource->Find(call, arrival, row_ids);
    }
    output = resource->KeepRows(output, arrival);
  }

  const bool insert_;
  const bool keys_are_distinct_;
  const bool uses_keys_;
};

class InsertAbsent {
 public:
  explicit InsertAbsent(tf::OpKernelConstruction* ctx)
      : rows_are_given_(ItemAttributes<bool>(ctx, "rows_are_given")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    ForEachItem(ctx, [&](OpCall& call, int i) { Insert(ctx, call, group, i); });
  }

 private:
  void Insert(tf::OpKernelContext* ctx, OpCall& call, const Group& group, int i) const {
    const tf::Tensor& keys = group.Vector("keys", i);
    const tf::Tensor& found = group.Vector("found", i);
    if (found.NumElements() != keys.NumElements()) {
      Throw(ErrorCode::kInvalidArgument, group.name(), ": found must have one row id for each of ",
            keys.NumElements(), " keys, got ", found.NumElements());
    }
    if (!MayHaveAbsent(call, found)) {
      group.SetOutput("row_ids", i, found);
      return;
    }
    tf::Tensor& output = group.Output("row_ids", i, keys.shape());
    const auto table = LookupTable(ctx, group.Handle("tables", i));
    Arrival arrival = table->ArrivalOf(ctx, Arrival::Purpose::kInsert, keys);
    arrival.keys_are_distinct = true;
    const bool are_given = rows_are_given_[static_cast<size_t>(i)];
    std::vector<int64_t> found_buffer;
    int64_t num_new = arrival.num_keys;
    if (are_given || call.engine().IsHostMemory()) {  // else a search for all keys is faster
      arrival.found = call.OnHost(Data<int64_t>(found), arrival.num_keys, &found_buffer);
      num_new = std::count(arrival.found, arrival.found + arrival.num_keys, kNoRow);
    }
    arrival.generation = GenerationOf(found);  // of the older ones among them
    table->WithRoom(call, num_new, [&](const TableView& view) {
      if (are_given) GiveRows(view.options(), group.Matrix("absent_rows", i), &arrival);
      view.Arrive(call, arrival, Data<int64_t>(output));
    });
    output = table->KeepRows(output, arrival);
    if (arrival.since != 0) {
      output = Owning(output, std::make_shared<tf::Tensor>(found), arrival.generation);
    }
  }

  const std::vector<bool> rows_are_given_;
};

void InsertRows(tf::OpKernelContext* ctx) {
  const tf::Tensor& keys = InputOfRank(ctx, "keys", 1);
  const tf::Tensor& initial_rows = InputOfRank(ctx, "initial_rows", 2);
  tf::Tensor& row_ids = Output(ctx, "row_ids", keys.shape());
  OpCall call(ctx);
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  Arrival arrival = resource->ArrivalOf(ctx, Arrival::Purpose::kInsert, keys);
  arrival.initial_rows = Data<float>(initial_rows);
  resource->WithRoom(call, arrival.num_keys, [&](const TableView& view) {
    CheckInitialRows(view.options(), keys, initial_rows);
    view.Arrive(call, arrival, Data<int64_t>(row_ids));
  });
  row_ids = resource->KeepRows(row_ids, arrival);
}

const RegisteredKernel kKeyKernels[] = {
    {"SokDistinctKeys", Make<StepKernelOf<DistinctKeys>>, {}},
    {"SokFindRows", Make<FindRowsOp>, {"tables", "collectives"}},
    {"SokInsertAbsent", Make<StepKernelOf<InsertAbsent>>, {"tables"}},
    {"SokInsertRows", Make<StepKernelOf<Calls<InsertRows>>>, {"table"}},
};

}  // namespace
}  // namespace sok
