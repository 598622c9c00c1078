// SPDX-License-Identifier: Apache-2.0
// Ops on the history of a table's keys, and eviction by history.
#include <cstdint>
#include <mutex>
#include <vector>

#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/tables/resource/table_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

using tf::shape_inference::InferenceContext;

REGISTER_OP("SokKeyHistory")
    .Input("table: resource")
    .Input("keys: int64")
    .Output("counts: int64")
    .Output("steps: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(1));
      c->set_output(1, c->input(1));
      return absl::OkStatus();
    })
    .Doc(
        "The occurrences of each key in training steps, and the last of these steps; 0 and -1 "
        "for unknown keys.");

REGISTER_OP("SokExportWaitingKeys")
    .Input("table: resource")
    .Output("keys: int64")
    .Output("counts: int64")
    .Output("steps: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "The keys that have occurred but have no row yet, with outputs as SokKeyHistory. A Bloom "
        "filter has no list of its keys.");

REGISTER_OP("SokImportHistory")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("counts: int64")
    .Input("steps: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Replaces the history of these distinct keys. Keys without a row still wait for one, "
        "however often they occurred; without a filter their history is dropped.");

REGISTER_OP("SokEvictKeys")
    .Input("table: resource")
    .Input("step: int64")
    .Output("num_evicted: int64")
    .Attr("steps_to_live: int >= 0 = 0")
    .Attr("l2_threshold: float = 0.0")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Evicts keys that last occurred before step - steps_to_live or, with an l2_threshold "
        "above 0, keys with half a squared norm below it; keys that wait for a row are always "
        "judged by the step. A row without a recorded step gets `step`. A `step` below 0 stands "
        "for the one after the last counted step. Running steps keep reading the rows that they "
        "have found.");

void OutputSeen(const std::vector<KeySeen>& seen, tf::OpKernelContext* ctx) {
  const tf::TensorShape shape({static_cast<int64_t>(seen.size())});
  int64_t* counts = Data<int64_t>(Output(ctx, "counts", shape));
  int64_t* steps = Data<int64_t>(Output(ctx, "steps", shape));
  for (const KeySeen& each : seen) {
    *counts++ = each.count;
    *steps++ = each.step;
  }
}

void HistoryOfKeys(tf::OpKernelContext* ctx) {
  const tf::Tensor& keys = InputOfRank(ctx, "keys", 1);
  const int64_t num_keys = keys.NumElements();
  OpCall call(ctx);
  LookupTable(ctx, HandleIn(ctx, "table"))->WithPlanes(call, [&](const TableView& view) {
    OutputSeen(view.policy.HistoryOf(call, view.table, num_keys, Data<int64_t>(keys)), ctx);
  });
}

void ExportWaitingKeys(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  LookupTable(ctx, HandleIn(ctx, "table"))->WithPlanes(call, [&](const TableView& view) {
    KeyHistory& history = view.policy.KeptHistory(view.table);
    std::vector<int64_t> keys;
    std::vector<KeySeen> seen;
    {
      const std::lock_guard<FairSharedMutex> lock(history.mutex());
      history.waiting().Export(0, history.waiting().num_places(), &keys, &seen);
    }
    OutputVector(ctx, "keys", keys);
    OutputSeen(seen, ctx);
  });
}

const tf::Tensor& OfKeys(tf::OpKernelContext* ctx, const char* name, const tf::Tensor& keys) {
  const tf::Tensor& values = InputOfRank(ctx, name, 1);
  if (values.NumElements() == keys.NumElements()) return values;
  Throw(ErrorCode::kInvalidArgument, name, " must have one value for each of ", keys.NumElements(),
        " keys, got ", values.NumElements());
}

void ImportHistory(tf::OpKernelContext* ctx) {
  const tf::Tensor& keys = InputOfRank(ctx, "keys", 1);
  const int64_t* counts = Data<int64_t>(OfKeys(ctx, "counts", keys));
  const int64_t* steps = Data<int64_t>(OfKeys(ctx, "steps", keys));
  OpCall call(ctx);
  LookupTable(ctx, HandleIn(ctx, "table"))->WithPlanes(call, [&](const TableView& view) {
    const int64_t* all = Data<int64_t>(keys);
    std::vector<KeySeen> seen;
    for (int64_t i = 0; i < keys.NumElements(); ++i) seen.push_back({counts[i], steps[i]});
    view.policy.Import(call, view.table, {all, all + keys.NumElements()}, seen);
  });
}

class EvictKeys {
 public:
  explicit EvictKeys(tf::OpKernelConstruction* ctx)
      : steps_to_live_(Attribute<int64_t>(ctx, "steps_to_live")),
        l2_threshold_(Attribute<float>(ctx, "l2_threshold")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const int64_t step = InputOfRank(ctx, "step", 0).scalar<int64_t>()();
    OpCall call(ctx);
    const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
    resource->NoteStep(ctx);
    resource->WithPlanes(call, [&](const TableView& view) {
      Output(ctx, "num_evicted", {}).scalar<int64_t>()() = view.policy.Evict(
          call, view.table, *view.planes.rows, {step, steps_to_live_, l2_threshold_});
    });
  }

 private:
  const int64_t steps_to_live_;
  const float l2_threshold_;
};

const RegisteredKernel kHistoryKernels[] = {
    {"SokKeyHistory", Make<KernelOf<Calls<HistoryOfKeys>>>, {"table", "keys", "counts", "steps"}},
    {"SokExportWaitingKeys",
     Make<KernelOf<Calls<ExportWaitingKeys>>>,
     {"table", "keys", "counts", "steps"}},
    {"SokImportHistory",
     Make<KernelOf<Calls<ImportHistory>>>,
     {"table", "keys", "counts", "steps"}},
    {"SokEvictKeys", Make<KernelOf<EvictKeys>>, {"table", "step", "num_evicted"}},
};

}  // namespace
}  // namespace sok
