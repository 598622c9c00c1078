// SPDX-License-Identifier: Apache-2.0
// Ops by which a served table follows checkpoints: the changes are read while it is in use, and
// applied in a moment in which nobody uses it.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "ops/engine/key_index.h"
#include "ops/engine/restored_keys.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/lookup_checks.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/checkpoint/restore/saved_table_op.h"
#include "ops/tf/tables/contents/clamped.h"
#include "ops/tf/tables/contents/columns.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

REGISTER_OP("SokReadChanges")
    .Input("table: resource")
    .Input("prefix: string")
    .Input("is_next: bool") SOK_COLLECTIVES.SetIsStateful() SOK_SAVED_TABLE_ATTRIBUTES
    .Output("keys: int64")
    .Output("rows: float")
    .Output("gone: int64")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(tf::shape_inference::InferenceContext::kUnknownDim));
      c->set_output(1, c->Matrix(tf::shape_inference::InferenceContext::kUnknownDim,
                                 tf::shape_inference::InferenceContext::kUnknownDim));
      c->set_output(2, c->Vector(tf::shape_inference::InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
    .Doc(
        "The keys whose rows differ between the table and a checkpoint, with the checkpoint's "
        "rows, and the keys that the checkpoint lacks. `is_next`: the table holds what the "
        "checkpoint, an increment, is based on, so that only the increment is read; else it is "
        "compared with all of its chain. Nothing is changed.");

REGISTER_OP("SokApplyChanges")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("rows: float")
    .Input("gone: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Gives the keys [n] their rows [n, dim], and removes the keys `gone`. If it fails, the "
        "table may be left without these.");

/// What a table lacks of a checkpoint.
class Changes {
 public:
  Changes(OpCall& call, const TableView& view, KeysOf are)
      : call_(call), view_(view), keys_are_(are) {}

  /// Outputs an increment of what the table holds, without a second copy of its rows.
  void Take(tf::OpKernelContext* ctx, SavedLink& link, const std::vector<int64_t>& gone) {
    OutputVector(ctx, "gone", gone);
    element_ = link.element.value_or(Element::kFloat32);
    const int64_t count = link.num_wanted();
    auto* keys = Data<int64_t>(sok::Output(ctx, "keys", {count}));
    float* rows = Data<float>(sok::Output(ctx, "rows", {count, dim()}));
    ForEachBlock(link, [&](const RowsBlock& block) {
      keys = std::copy_n(block.keys(), block.count, keys);
      for (int64_t i = 0; i < block.count; ++i) rows = Widen(block, i, rows);
    });
  }

  /// Of a chain whose links come from the last to the first: the last one that has a key counts.
  void Compare(SavedLink& link, const std::vector<int64_t>& gone) {
    NewIn(static_cast<int64_t>(gone.size()), gone.data(), kGone);
    element_ = link.element.value_or(Element::kFloat32);
    stored_ = std::move(ColumnsOf(call_, view_, element_)[0]);
    ForEachBlock(link, [&](const RowsBlock& block) {
      const std::vector<int64_t> news = NewIn(block.count, block.keys(), kHasRow);
      if (news.empty()) return;
      const std::vector<int64_t> row_ids = view_.table.FindOnHost(call_, block.count, block.keys());
      std::vector<char> rows(static_cast<size_t>(block.count * stored_.row_bytes()));
      stored_.source->ToHost(block.count, call_.OnDevice(row_ids.data(), block.count), rows.data());
      for (const int64_t i : news) {
        const int64_t at = i * stored_.row_bytes();
        const auto* row = static_cast<const char*>(block.Of(1)) + at;
        const auto n = static_cast<size_t>(stored_.row_bytes());
        const bool is_there = row_ids[static_cast<size_t>(i)] >= 0;
        if (!is_there || std::memcmp(rows.data() + at, row, n) != 0) Add(block, i);
      }
    });
  }

  /// After Compare of all links, before Output.
  void AddKeysOfNoLink() {
    if (!view_.options().use_hash_index) return;  // all keys have rows
    const TableEntries entries = view_.table.Export(call_);
    std::vector<int64_t> buffer;
    const int64_t* keys = call_.OnHost(entries.keys, entries.count, &buffer);
    std::vector<int64_t> states(static_cast<size_t>(entries.count));
    seen_.Find(entries.count, keys, states.data());
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i] != kHasRow) gone_.push_back(keys[i]);
  }

  void Output(tf::OpKernelContext* ctx) {
    OutputVector(ctx, "keys", keys_);
    OutputVector(ctx, "gone", gone_);
    const auto count = static_cast<int64_t>(keys_.size());
    float* rows = Data<float>(sok::Output(ctx, "rows", {count, dim()}));
    std::copy(rows_.begin(), rows_.end(), rows);
  }

 private:
  enum State : int64_t { kHasRow = 0, kGone = 1 };

  int64_t dim() const { return view_.options().dim; }

  void ForEachBlock(SavedLink& link, const RowsSource::Use& use) {
    for (SavedColumns& columns : link.rows) {
      columns.ForEachBlock([&](const RowsBlock& block) {
        CheckKeysAre(view_.options(), block.count, block.keys(), keys_are_);
        use(block);
      });
    }
  }

  void Add(const RowsBlock& block, int64_t i) {
    keys_.push_back(block.keys()[i]);
    Widen(block, i, std::back_inserter(rows_));
  }

  /// Writes row i as floats; returns the place after it.
  template <typename To>
  To Widen(const RowsBlock& block, int64_t i, To to) {
    const RowsView rows{const_cast<void*>(block.Of(1)), element_, dim()};
    WithElement(rows.From(i), [&](const auto* row) {
      to = std::transform(row, row + dim(), to, [](auto number) { return Widened(number); });
    });
    return to;
  }

  /// The places of keys that no link has had before.
  std::vector<int64_t> NewIn(int64_t count, const int64_t* keys, State state) {
    std::vector<int64_t> states(static_cast<size_t>(count)), places, news;
    seen_.Find(count, keys, states.data());
    for (int64_t i = 0; i < count; ++i) {
      if (states[static_cast<size_t>(i)] != kNoRow) continue;
      places.push_back(i);
      news.push_back(keys[i]);
    }
    states.assign(news.size(), state);
    seen_.Insert(call_.executor(), static_cast<int64_t>(news.size()), news.data(), states.data());
    return places;
  }

  OpCall& call_;
  const TableView& view_;
  const KeysOf keys_are_;
  Element element_ = Element::kFloat32;  // of the link's rows
  Column stored_;                        // the table's rows, as such
  KeyIndex seen_;                        // key -> State, of the links so far
  std::vector<int64_t> keys_, gone_;
  std::vector<float> rows_;
};

class ReadChangesOp : public SavedTableOp {
 public:
  using SavedTableOp::SavedTableOp;

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    const bool is_next = Input(ctx, "is_next").scalar<bool>()();
    communicator.Begin();
    const Chain chain = OpenChain(Input(ctx, "prefix").scalar<tf::tstring>()());
    if (is_next && chain.size() == 1)
      Throw(ErrorCode::kInvalidArgument, chain[0]->saved.prefix(), " is no increment");
    table.WithPlanes(call, [&](const TableView& view) {
      Changes changes(call, view, keys_);
      for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
        Open(view, link->get());
        Count(link->get());
        std::vector<int64_t> gone;
        if (!(*link)->is_whole()) gone = GoneKeys(**link);
        if (is_next) return changes.Take(ctx, **link, gone);
        changes.Compare(**link, gone);
      }
      changes.AddKeysOfNoLink();
      changes.Output(ctx);
    });
  }
};

void ApplyChanges(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  const tf::Tensor& keys = Input(ctx, "keys");
  const tf::Tensor& rows = Input(ctx, "rows");
  const tf::Tensor& gone = Input(ctx, "gone");
  const int64_t num_keys = keys.NumElements(), num_gone = gone.NumElements();
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  resource->WithRoom(call, num_keys, [](const TableView&) {});
  resource->WithAlone(call, {}, [&](const TableView& view) {
    CheckInitialRows(view.options(), keys, rows);
    if (num_gone > 0) {
      const int64_t* first = Data<int64_t>(gone);
      resource->NoteGone(view.policy.Erase(call, view.table, {first, first + num_gone}));
    }
    if (num_keys == 0) return;
    auto* row_ids = call.Temporary<int64_t>(num_keys);
    const int64_t* of_device = call.OnDevice(Data<int64_t>(keys), num_keys);
    view.table.FindOrInsert(call, {num_keys, of_device, /*keys_are_distinct=*/false}, view.planes,
                            row_ids);
    RowMover(call, *view.planes.rows, num_keys).FromHost(num_keys, row_ids, Data<float>(rows));
    WarnOfClamped(view.options().name, NumClamped(view.planes.rows->data().element,
                                                  rows.NumElements(), Data<float>(rows)));
  });
}

// On a GPU: checkpoints are on the host.
const RegisteredKernel kChangesKernels[] = {
    {"SokReadChanges",
     Make<ReadChangesOp>,
     {"table", "prefix", "is_next", "collectives", "keys", "rows", "gone"}},
    {"SokApplyChanges", Make<KernelOf<Calls<ApplyChanges>>>, {"table", "keys", "rows", "gone"}},
};

}  // namespace
}  // namespace sok
