// SPDX-License-Identifier: Apache-2.0
// Ops that say which keys get rows, and which keys lose theirs; and the ops that carry gradients of
// keys without a row into a later step.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/base/counter_random.h"
#include "ops/base/hash.h"
#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/step_failure.h"
#include "ops/tf/lookup/row_gradients.h"
#include "ops/tf/tables/resource/absent_rows.h"

namespace sok {
namespace {

REGISTER_OP("SokAdmitKeys")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("row_ids: N * int64")
    .Input("counts: N * int32")
    .Input("absent_rows: N * float")
    .Input("step: int64")
    .Attr("N: int >= 1")
    .Attr("rows_are_given: list(bool)")
    .Output("rows_to_train: N * int64")
    .SetIsStateful()
    .SetShapeFn(ShapesOfSecondList)
    .Doc(
        "Counts distinct keys, which occurred `counts` times in this step and for which a lookup "
        "has found row_ids, and records the step. Assigns a row to each key that has now "
        "occurred often enough for its table's filter, or to all keys if it has none. Outputs "
        "the row of each key, or of a key that the filter still keeps out an id below -1: if a "
        "later lookup of the step gives the key a row, SokApplyRule trains this row. "
        "rows_are_given: absent_rows are the initial rows of keys whose row_ids are -1, in their "
        "order, and a key that has lost its row since the lookup gets none in this step; "
        "otherwise rows start at their first values. If an item fails, its table is unchanged, "
        "but items before it are done.");

REGISTER_OP("SokWaitingKeys")
    .Input("table: resource")
    .Input("ids: int64")
    .Output("keys: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "The keys of ids that SokAdmitKeys has given in this step to keys without a row; 0 for "
        "other ids.");

REGISTER_OP("SokWaitForRows")
    .Input("table: resource")
    .Input("ids: int64")
    .Input("keys: int64")
    .Output("ids_now: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "The ids of an earlier step and the keys that SokWaitingKeys gave for them there; ids "
        "below "
        "-1 become such ids of this step.");

REGISTER_OP("SokMakeRoom")
    .Input("table: resource")
    .Input("keys: int64")
    .Output("evicted_keys: int64")
    .Output("evicted_rows: float")
    .SetIsStateful()
    .SetShapeFn(VectorAndMatrices)
    .Doc(
        "In a table with max_keys, evicts the least recently used keys that a lookup of `keys` "
        "with `insert` would evict, and outputs them, in the order of their last uses, with their "
        "rows. Records the use of keys that have rows.");

REGISTER_OP("SokDrawKeys")
    .Input("table: resource")
    .Input("keys: int64")
    .Attr("ratio: float")
    .Attr("seed: int")
    .Output("is_drawn: bool")
    .SetIsStateful()
    .SetShapeFn(ShapesOfSecondList)
    .Doc(
        "Draws each key with the probability `ratio`: a pure function of the seed, the key, and "
        "how many draws this table has seen.");

class AdmitKeys {
 public:
  explicit AdmitKeys(tf::OpKernelConstruction* ctx)
      : rows_are_given_(ItemAttributes<bool>(ctx, "rows_are_given")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    ForEachItem(ctx, [&](OpCall& call, int i) {
      const tf::Tensor& keys = group.Vector("keys", i);
      const tf::Tensor& row_ids = group.Vector("row_ids", i);
      const tf::Tensor& counts = group.Vector("counts", i);
      const tf::Tensor& absent_rows = group.Matrix("absent_rows", i);
      const int64_t num_keys = keys.NumElements();
      if (row_ids.NumElements() != num_keys || counts.NumElements() != num_keys) {
        Throw(ErrorCode::kInvalidArgument, group.name(), ": ", num_keys, " keys, but ",
              row_ids.NumElements(), " row ids and ", counts.NumElements(), " counts");
      }
      const auto resource = LookupTable(ctx, group.Handle("tables", i));
      Arrival arrival = resource->ArrivalOf(ctx, Arrival::Purpose::kTrain, keys);
      arrival.training_step = Input(ctx, "step").scalar<int64_t>()();
      std::vector<int32_t> counts_buffer;
      arrival.counts = call.OnHost(Data<int32_t>(counts), num_keys, &counts_buffer);
      std::vector<int64_t> found_buffer;
      const bool are_given = rows_are_given_[static_cast<size_t>(i)];
      if (are_given) arrival.found = call.OnHost(Data<int64_t>(row_ids), num_keys, &found_buffer);
      tf::Tensor& rows_to_train = group.Output("rows_to_train", i, keys.shape());
      resource->WithRoom(call, num_keys, [&](const TableView& view) {
        if (are_given) GiveRows(view.options(), absent_rows, &arrival);
        view.Arrive(call, arrival, Data<int64_t>(rows_to_train));
      });
      rows_to_train = resource->KeepRows(rows_to_train, arrival);
    });
  }

 private:
  const std::vector<bool> rows_are_given_;
};

std::vector<int64_t> OnHost(OpCall& call, const tf::Tensor& vector) {
  std::vector<int64_t> values(static_cast<size_t>(vector.NumElements()));
  call.CopyToHost(values.data(), Data<int64_t>(vector), vector.NumElements());
  return values;
}

void KeysOfWaiting(tf::OpKernelContext* ctx) {
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  OpCall call(ctx);
  const std::vector<int64_t> ids = OnHost(call, InputOfRank(ctx, "ids", 1));
  std::vector<int64_t> keys(ids.size());
  resource->WithPlanes(call, [&](const TableView&) {
    const WaitingIds waiting = FindWaiting(ctx, resource.get(), ids);
    for (size_t i = 0; i < waiting.keys.size(); ++i) keys[waiting.places[i]] = waiting.keys[i];
  });
  const auto count = static_cast<int64_t>(keys.size());
  call.CopyFromHost(Data<int64_t>(Output(ctx, "keys", {count})), keys.data(), count);
}

void WaitForRows(tf::OpKernelContext* ctx) {
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  OpCall call(ctx);
  std::vector<int64_t> ids = OnHost(call, InputOfRank(ctx, "ids", 1));
  const std::vector<int64_t> keys = OnHost(call, InputOfRank(ctx, "keys", 1));
  if (keys.size() != ids.size()) {
    Throw(ErrorCode::kInvalidArgument, "SokWaitForRows: ", ids.size(), " ids, but ", keys.size(),
          " keys");
  }
  std::vector<int64_t> waiting;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < kNoRow) waiting.push_back(keys[i]);
  }
  resource->WithPlanes(call, [&](const TableView&) {
    int64_t id = resource->GiveIds(ctx, std::move(waiting));
    for (int64_t& each : ids) {
      if (each < kNoRow) each = id--;
    }
  });
  const auto count = static_cast<int64_t>(ids.size());
  call.CopyFromHost(Data<int64_t>(Output(ctx, "ids_now", {count})), ids.data(), count);
}

void EvictForRoom(tf::OpKernelContext* ctx) {
  const tf::Tensor& keys = InputOfRank(ctx, "keys", 1);
  OpCall call(ctx);
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  Arrival arrival = resource->ArrivalOf(ctx, Arrival::Purpose::kMakeRoom, keys);
  resource->WithPlanes(call, [&](const TableView& view) {
    view.policy.KeptHistory(view.table);
    const auto output = [&](const Evicted& gone) {
      const auto count = static_cast<int64_t>(gone.keys.size());
      const int64_t dim = view.options().dim;
      call.CopyFromHost(Data<int64_t>(Output(ctx, "evicted_keys", {count})), gone.keys.data(),
                        count);
      call.engine().GatherRows(call, count, call.OnDevice(gone.rows.data(), count),
                               view.planes.rows->data(),
                               Data<float>(Output(ctx, "evicted_rows", {count, dim})));
    };
    if (!view.limits_keys()) return output({});
    arrival.before_eviction = output;  // without memory for the outputs, rows would be lost
    view.Arrive(call, arrival, call.Temporary<int64_t>(arrival.num_keys));
  });
}

class DrawKeys {
 public:
  explicit DrawKeys(tf::OpKernelConstruction* ctx)
      : ratio_(Attribute<float>(ctx, "ratio")), seed_(Attribute<int64_t>(ctx, "seed")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const tf::Tensor& keys = InputOfRank(ctx, "keys", 1);
    const int64_t num_keys = keys.NumElements();
    OpCall call(ctx);
    std::vector<int64_t> buffer;
    const int64_t* keys_on_host = call.OnHost(Data<int64_t>(keys), num_keys, &buffer);
    const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
    const auto draw = static_cast<uint64_t>(resource->CountDraw());
    const uint64_t stream = MixBits(HashKey(seed_) + draw);
    bool* is_drawn = Data<bool>(Output(ctx, "is_drawn", keys.shape()));
    for (int64_t i = 0; i < num_keys; ++i) {
      const uint64_t bits = MixBits(HashKey(keys_on_host[i]) ^ stream);
      is_drawn[i] = UnitFloat(static_cast<uint32_t>(bits >> 32)) < ratio_;
    }
  }

 private:
  const float ratio_;
  const int64_t seed_;
};

const RegisteredKernel kAdmissionKernels[] = {
    {"SokMakeRoom", Make<StepKernelOf<Calls<EvictForRoom>>>, {"table"}},
    {"SokDrawKeys", Make<StepKernelOf<DrawKeys>>, {"table", "is_drawn"}},
    {"SokAdmitKeys", Make<StepKernelOf<AdmitKeys>>, {"tables", "step"}},
    {"SokWaitingKeys", Make<KernelOf<Calls<KeysOfWaiting>>>, {"table"}},
    {"SokWaitForRows", Make<KernelOf<Calls<WaitForRows>>>, {"table"}},
};

}  // namespace
}  // namespace sok
