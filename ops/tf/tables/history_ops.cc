// SPDX-License-Identifier: Apache-2.0
// Ops on the history of a table's keys, and eviction by history.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ops/tf/base/group.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/tables/table_contents.h"
#include "ops/tf/tables/table_history.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
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

class KeyHistoryOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, "keys", 1);
      const int64_t num_keys = keys.NumElements();
      int64_t* counts = Data<int64_t>(Output(ctx, "counts", keys.shape()));
      int64_t* steps = Data<int64_t>(Output(ctx, "steps", keys.shape()));
      OpCall call(ctx);
      LookupTable(ctx, HandleIn(ctx, "table"))->WithPlanes(call, [&](const TableView& view) {
        KeyHistory& history = HistoryOf(view);
        std::vector<int64_t> row_ids(static_cast<size_t>(num_keys));
        std::vector<KeySeen> waiting(row_ids.size());
        const std::lock_guard<FairSharedMutex> lock(history.mutex());
        FindOnHost(call, view.table, num_keys, Data<int64_t>(keys), row_ids.data());
        history.waiting().Find(num_keys, Data<int64_t>(keys), waiting.data());
        for (size_t i = 0; i < row_ids.size(); ++i) {
          const KeySeen seen = row_ids[i] == kNoRow ? waiting[i] : history.OfRow(row_ids[i]);
          counts[i] = seen.count;
          steps[i] = seen.step;
        }
      });
    });
  }
};

class ExportWaitingKeysOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      OpCall call(ctx);
      LookupTable(ctx, HandleIn(ctx, "table"))->WithPlanes(call, [&](const TableView& view) {
        KeyHistory& history = HistoryOf(view);
        std::vector<int64_t> keys;
        std::vector<KeySeen> seen;
        {
          const std::lock_guard<FairSharedMutex> lock(history.mutex());
          history.waiting().Export(0, history.waiting().num_places(), &keys, &seen);
        }
        const tf::TensorShape shape({static_cast<int64_t>(keys.size())});
        std::copy(keys.begin(), keys.end(), Data<int64_t>(Output(ctx, "keys", shape)));
        int64_t* counts = Data<int64_t>(Output(ctx, "counts", shape));
        int64_t* steps = Data<int64_t>(Output(ctx, "steps", shape));
        for (size_t i = 0; i < seen.size(); ++i) {
          counts[i] = seen[i].count;
          steps[i] = seen[i].step;
        }
      });
    });
  }
};

class ImportHistoryOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, "keys", 1);
      const int64_t* counts = Data<int64_t>(OfKeys(ctx, "counts", keys));
      const int64_t* steps = Data<int64_t>(OfKeys(ctx, "steps", keys));
      OpCall call(ctx);
      LookupTable(ctx, HandleIn(ctx, "table"))->WithPlanes(call, [&](const TableView& view) {
        const int64_t* all = Data<int64_t>(keys);
        std::vector<KeySeen> seen;
        for (int64_t i = 0; i < keys.NumElements(); ++i) seen.push_back({counts[i], steps[i]});
        ImportHistory(call, view, {all, all + keys.NumElements()}, seen);
      });
    });
  }

 private:
  static const tf::Tensor& OfKeys(tf::OpKernelContext* ctx, const char* name,
                                  const tf::Tensor& keys) {
    const tf::Tensor& values = InputOfRank(ctx, name, 1);
    if (values.NumElements() == keys.NumElements()) return values;
    Throw(ErrorCode::kInvalidArgument, name, " must have one value for each of ",
          keys.NumElements(), " keys, got ", values.NumElements());
  }
};

constexpr int64_t kMostKeysAtOnce = 4096;  // for which eviction blocks the counting of steps

class EvictKeysOp : public tf::OpKernel {
 public:
  explicit EvictKeysOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        steps_to_live_(Attribute<int64_t>(ctx, "steps_to_live")),
        l2_threshold_(Attribute<float>(ctx, "l2_threshold")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const int64_t step = InputOfRank(ctx, "step", 0).scalar<int64_t>()();
      OpCall call(ctx);
      const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
      resource->NoteStep(ctx);
      int64_t num_evicted = 0;
      resource->WithPlanes(call, [&](const TableView& view) {
        KeyHistory& history = HistoryOf(view);
        if (!history.options().evicts) {
          Throw(ErrorCode::kFailedPrecondition, "table '", view.options().name,
                "' was not made to evict keys");
        }
        num_evicted = Evict(call, view, &history, resource.get(), step);
      });
      Output(ctx, "num_evicted", {}).scalar<int64_t>()() = num_evicted;
    });
  }

 private:
  /// Rows are read before the history is locked, and the lock is taken for a few keys at a time, so
  /// that steps do not wait long for it.
  int64_t Evict(OpCall& call, const TableView& view, KeyHistory* history, TableResource* table,
                int64_t step) const {
    const TableEntries held = view.table.Export(call);
    std::vector<int64_t> room_of_keys, room_of_ids;
    const int64_t* keys = call.OnHost(held.keys, held.count, &room_of_keys);
    const int64_t* row_ids = call.OnHost(held.row_ids, held.count, &room_of_ids);
    std::vector<int64_t> light, old;
    if (l2_threshold_ > 0.0f) AddLightRows(call, view, held, keys, &light);
    if (steps_to_live_ > 0) {
      if (step < 0) step = StepAfterLast(history);
      for (int64_t first = 0; first < held.count; first += kMostKeysAtOnce) {
        const int64_t count = std::min(kMostKeysAtOnce, held.count - first);
        AddOldRows(history, step, count, keys + first, row_ids + first, &old);
      }
      EvictWaiting(call, history, step);
    }
    return TakeRows(call, view, history, table, INT64_MAX, light) +
           TakeRows(call, view, history, table, step - steps_to_live_, old);
  }

  static int64_t StepAfterLast(KeyHistory* history) {
    const std::lock_guard<FairSharedMutex> lock(history->mutex());
    return history->last_step() + 1;
  }

  void AddOldRows(KeyHistory* history, int64_t step, int64_t count, const int64_t* keys,
                  const int64_t* row_ids, std::vector<int64_t>* old) const {
    const std::lock_guard<FairSharedMutex> lock(history->mutex());
    for (int64_t i = 0; i < count; ++i) {
      const KeySeen seen = history->OfRow(row_ids[i]);
      if (seen.step < 0) history->SetRow(row_ids[i], {seen.count, step});
      if (seen.step >= 0 && seen.step < step - steps_to_live_) old->push_back(keys[i]);
    }
  }

  void EvictWaiting(OpCall& call, KeyHistory* history, int64_t step) const {
    for (int64_t first = 0;; first += kMostKeysAtOnce) {
      const std::lock_guard<FairSharedMutex> lock(history->mutex());
      WaitingKeys& waiting = history->waiting();
      if (first >= waiting.num_places()) return;
      std::vector<int64_t> keys;
      std::vector<KeySeen> seen;
      waiting.Export(first, std::min(first + kMostKeysAtOnce, waiting.num_places()), &keys, &seen);
      for (size_t i = 0; i < keys.size(); ++i) {
        if (seen[i].step < 0) {
          seen[i].step = step;
          waiting.Put(call.executor(), 1, &keys[i], &seen[i]);
        } else if (seen[i].step < step - steps_to_live_) {
          waiting.Erase(keys[i]);
        }
      }
    }
  }

  /// Evicts those of `keys` that still last occurred before `first_step`; returns their number.
  static int64_t TakeRows(OpCall& call, const TableView& view, KeyHistory* history,
                          TableResource* table, int64_t first_step,
                          const std::vector<int64_t>& keys) {
    int64_t num_evicted = 0;
    std::vector<int64_t> gone, gone_rows, row_ids;
    for (size_t first = 0; first < keys.size(); first += kMostKeysAtOnce) {
      const size_t count = std::min<size_t>(kMostKeysAtOnce, keys.size() - first);
      row_ids.resize(count);
      gone.clear();
      gone_rows.clear();
      const std::lock_guard<FairSharedMutex> lock(history->mutex());
      FindOnHost(call, view.table, static_cast<int64_t>(count), &keys[first], row_ids.data());
      for (size_t i = 0; i < count; ++i) {
        if (row_ids[i] == kNoRow || history->OfRow(row_ids[i]).step >= first_step) continue;
        gone.push_back(keys[first + i]);
        gone_rows.push_back(row_ids[i]);
      }
      if (!gone.empty()) num_evicted += EvictRows(call, view, table, gone, gone_rows);
    }
    return num_evicted;
  }

  void AddLightRows(OpCall& call, const TableView& view, const TableEntries& held,
                    const int64_t* keys, std::vector<int64_t>* gone) const {
    const int64_t dim = view.options().dim;
    const int64_t most = std::min(held.count, RowsOfPart(dim));
    RowMover mover(call, *view.planes.rows, most);
    std::vector<float> rows(static_cast<size_t>(most * dim));
    for (int64_t first = 0; first < held.count; first += most) {
      const int64_t count = std::min(most, held.count - first);
      mover.ToHost(count, held.row_ids + first, rows.data());
      for (int64_t i = 0; i < count; ++i) {
        float squares = 0.0f;
        for (int64_t column = 0; column < dim; ++column) {
          const float number = rows[static_cast<size_t>(i * dim + column)];
          squares += number * number;
        }
        if (0.5f * squares < l2_threshold_) gone->push_back(keys[first + i]);
      }
    }
  }

  const int64_t steps_to_live_;
  const float l2_threshold_;
};

SOK_REGISTER_KERNEL(Name("SokKeyHistory")
                        .HostMemory("table")
                        .HostMemory("keys")
                        .HostMemory("counts")
                        .HostMemory("steps"),
                    KeyHistoryOp);
SOK_REGISTER_KERNEL(Name("SokExportWaitingKeys")
                        .HostMemory("table")
                        .HostMemory("keys")
                        .HostMemory("counts")
                        .HostMemory("steps"),
                    ExportWaitingKeysOp);
SOK_REGISTER_KERNEL(Name("SokImportHistory")
                        .HostMemory("table")
                        .HostMemory("keys")
                        .HostMemory("counts")
                        .HostMemory("steps"),
                    ImportHistoryOp);
SOK_REGISTER_KERNEL(
    Name("SokEvictKeys").HostMemory("table").HostMemory("step").HostMemory("num_evicted"),
    EvictKeysOp);

}  // namespace
}  // namespace sok
