// SPDX-License-Identifier: Apache-2.0
// Ops of lookups that say which keys lose their rows, and that give rows to some new keys only.
#include <cstdint>
#include <vector>

#include "ops/base/counter_random.h"
#include "ops/base/hash.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/step_failure.h"
#include "ops/tf/tables/resource/table_resource.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokMakeRoom")
    .Input("table: resource")
    .Input("keys: int64")
    .Output("evicted_keys: int64")
    .Output("evicted_rows: float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
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
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(1));
      return absl::OkStatus();
    })
    .Doc(
        "Draws each key with the probability `ratio`: a pure function of the seed, the key, and "
        "how many draws this table has seen.");

void EvictForRoom(tf::OpKernelContext* ctx) {
  const tf::Tensor& keys = InputOfRank(ctx, "keys", 1);
  OpCall call(ctx);
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  const Arrival arrival = resource->ArrivalOf(ctx, Arrival::Purpose::kMakeRoom, keys);
  resource->WithPlanes(call, [&](const TableView& view) {
    view.policy.KeptHistory(view.table);
    const Evicted gone = view.Arrive(call, arrival, call.Temporary<int64_t>(arrival.num_keys));
    const auto count = static_cast<int64_t>(gone.keys.size());
    const int64_t dim = view.options().dim;
    call.CopyFromHost(Data<int64_t>(Output(ctx, "evicted_keys", {count})), gone.keys.data(), count);
    call.engine().GatherRows(call, count, call.OnDevice(gone.rows.data(), count),
                             view.planes.rows->data(),
                             Data<float>(Output(ctx, "evicted_rows", {count, dim})));
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
    std::vector<int64_t> room;
    const int64_t* keys_on_host = call.OnHost(Data<int64_t>(keys), num_keys, &room);
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

const RegisteredKernel kLimitedKeysKernels[] = {
    {"SokMakeRoom", Make<StepKernelOf<Calls<EvictForRoom>>>, {"table"}},
    {"SokDrawKeys", Make<StepKernelOf<DrawKeys>>, {"table", "is_drawn"}},
};

}  // namespace
}  // namespace sok
