// SPDX-License-Identifier: Apache-2.0
// The op that counts the keys of a training step and assigns rows to admitted keys.
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/tf/base/group.h"
#include "ops/tf/base/lookup_checks.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/step_failure.h"
#include "ops/tf/tables/table_history.h"

namespace sok {
namespace {

namespace tf = tensorflow;

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

/// One item on the host.
class Arrival {
 public:
  Arrival(tf::OpKernelContext* ctx, OpCall& call, const Group& group, int item, bool rows_are_given)
      : ctx_(ctx),
        call_(call),
        rows_are_given_(rows_are_given),
        keys_(group.Vector("keys", item)),
        absent_rows_(group.Matrix("absent_rows", item)),
        step_(Input(ctx, "step").scalar<int64_t>()()),
        num_keys_(keys_.NumElements()),
        rows_to_train_(group.Output("rows_to_train", item, keys_.shape())) {
    const tf::Tensor& row_ids = group.Vector("row_ids", item);
    const tf::Tensor& counts = group.Vector("counts", item);
    if (row_ids.NumElements() != num_keys_ || counts.NumElements() != num_keys_) {
      Throw(ErrorCode::kInvalidArgument, ctx->op_kernel().name(), ": ", num_keys_, " keys, but ",
            row_ids.NumElements(), " row ids and ", counts.NumElements(), " counts");
    }
    row_ids_before_ = call.OnHost(Data<int64_t>(row_ids), num_keys_, &room_of_ids_);
    keys_on_host_ = call.OnHost(Data<int64_t>(keys_), num_keys_, &room_of_keys_);
    counts_ = call.OnHost(Data<int32_t>(counts), num_keys_, &room_of_counts_);
  }

  int64_t num_keys() const { return num_keys_; }

  /// Needs the history's mutex.
  void Admit(const TableView& view, TableResource* table) {
    KeyHistory& history = HistoryOf(view);
    FindRows(view.table);
    FindArriving(view.options());
    const int64_t most_rows = view.table.Size(call_).num_rows + num_keys_;
    const Admission admission = history.Admit(call_.executor(), most_rows, &arriving_);
    const std::vector<int64_t> rows = Insert(view, admission);
    for (size_t i = 0; i < found_.size(); ++i) {
      if (found_[i] != kNoRow) history.Count(found_[i], CountOf(i), step_);
    }
    history.Commit(call_.executor(), arriving_, admission, rows);
    history.NoteStep(step_);
    if (history.options().has_filter()) table->NoteGiven(ctx_, rows);
    for (size_t i = 0; i < rows.size(); ++i) found_[places_[admission.admitted[i]]] = rows[i];
    NoteWaiting(admission, table);
    call_.CopyFromHost(Data<int64_t>(rows_to_train_), found_.data(), num_keys_);
  }

 private:
  void NoteWaiting(const Admission& admission, TableResource* table) {
    std::vector<int64_t> keys;
    for (const size_t i : admission.waiting) keys.push_back(arriving_.keys[i]);
    if (keys.empty()) return;
    int64_t id = table->NoteWaiting(ctx_, std::move(keys));
    for (const size_t i : admission.waiting) found_[places_[i]] = id--;
  }

  int64_t CountOf(size_t i) const { return counts_[i]; }

  void FindRows(Table& table) {
    int64_t* row_ids = Data<int64_t>(rows_to_train_);
    table.Find(call_, num_keys_, Data<int64_t>(keys_), row_ids);
    found_.resize(static_cast<size_t>(num_keys_));
    call_.CopyToHost(found_.data(), row_ids, num_keys_);
  }

  /// Collects the keys without a row; if initial rows are given, only keys that have one.
  void FindArriving(const TableOptions& options) {
    int64_t num_absent = 0;
    for (size_t i = 0; i < found_.size(); ++i) {
      const bool was_absent = row_ids_before_[i] == kNoRow;
      const int64_t place = num_absent;
      num_absent += was_absent;
      if (found_[i] != kNoRow || (rows_are_given_ && !was_absent)) continue;
      places_.push_back(i);
      given_places_.push_back(place);
      arriving_.keys.push_back(keys_on_host_[i]);
      arriving_.seen.push_back({CountOf(i), step_});
    }
    if (rows_are_given_) CheckAbsentRows(options, num_absent, absent_rows_);
  }

  /// Inserts the admitted keys and returns their rows.
  std::vector<int64_t> Insert(const TableView& view, const Admission& admission) {
    const auto num_admitted = static_cast<int64_t>(admission.admitted.size());
    std::vector<int64_t> rows(admission.admitted.size());
    if (rows.empty()) return rows;
    std::vector<int64_t> keys;
    std::vector<int64_t> given;
    for (const size_t i : admission.admitted) {
      keys.push_back(arriving_.keys[i]);
      given.push_back(given_places_[i]);
    }
    float* initial_rows = nullptr;
    if (rows_are_given_) {
      const int64_t dim = view.options().dim;
      initial_rows = call_.Temporary<float>(num_admitted * dim);
      call_.engine().GatherRows(call_, num_admitted, call_.OnDevice(given.data(), num_admitted),
                                FloatRows(Data<float>(absent_rows_), dim), initial_rows);
    }
    int64_t* row_ids = call_.Temporary<int64_t>(num_admitted);
    view.table.FindOrInsert(call_, num_admitted, call_.OnDevice(keys.data(), num_admitted),
                            /*keys_are_distinct=*/true, initial_rows, view.planes, row_ids);
    call_.CopyToHost(rows.data(), row_ids, num_admitted);
    return rows;
  }

  tf::OpKernelContext* const ctx_;
  OpCall& call_;
  const bool rows_are_given_;
  const tf::Tensor& keys_;
  const tf::Tensor& absent_rows_;
  const int64_t step_;
  const int64_t num_keys_;
  tf::Tensor& rows_to_train_;
  std::vector<int64_t> room_of_ids_, room_of_keys_;
  std::vector<int32_t> room_of_counts_;
  const int64_t* row_ids_before_;
  const int64_t* keys_on_host_;
  const int32_t* counts_;

  std::vector<int64_t> found_;  // [num_keys]
  ArrivingKeys arriving_;
  std::vector<size_t> places_;         // positions of arriving keys among all
  std::vector<int64_t> given_places_;  // positions of arriving keys in absent_rows
};

class AdmitKeysOp : public tf::OpKernel {
 public:
  explicit AdmitKeysOp(tf::OpKernelConstruction* ctx) : tf::OpKernel(ctx) {
    FailOpOnThrow(ctx, [&] { rows_are_given_ = ItemAttributes<bool>(ctx, "rows_are_given"); });
  }

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const Group group(ctx);
      ForEachItem(ctx, [&](OpCall& call, int i) {
        const auto resource = LookupTable(ctx, group.Handle("tables", i));
        resource->NoteStep(ctx);
        Arrival arrival(ctx, call, group, i, rows_are_given_[static_cast<size_t>(i)]);
        resource->WithRoom(call, arrival.num_keys(), [&](const TableView& view) {
          const std::lock_guard<FairSharedMutex> lock(HistoryOf(view).mutex());
          arrival.Admit(view, resource.get());
        });
      });
    });
  }

 private:
  std::vector<bool> rows_are_given_;
};

SOK_REGISTER_KERNEL(Name("SokAdmitKeys").HostMemory("tables").HostMemory("step"), AdmitKeysOp);

}  // namespace
}  // namespace sok
