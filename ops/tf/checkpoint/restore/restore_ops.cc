// SPDX-License-Identifier: Apache-2.0
// The op that fills a table from a checkpoint, in either layout.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/tf/base/kernels.h"
#include "ops/tf/checkpoint/restore/restored_together.h"
#include "ops/tf/checkpoint/restore/saved_table_op.h"
#include "ops/tf/tables/contents/plane_checks.h"
#include "ops/tf/tables/contents/table_from_rows.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

REGISTER_OP("SokRestoreSaved")
    .Input("table: resource")
    .Input("prefix: string") SOK_COLLECTIVES.SetIsStateful() SOK_SAVED_TABLE_ATTRIBUTES
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the table hold exactly the checkpoint's keys that this rank owns and, of a part, "
        "whose bucket is `part` modulo num_parts, with their rows, slots and history, on all ranks "
        "or on none, however many ranks or parts have saved them. An increment is applied to the "
        "checkpoints that it is based on. Unnamed slots start at their initial value; in DeepRec's "
        "layout also those that are not required and missing, and rows of keys that a slot was not "
        "saved for. If the checkpoint does not fit, the table stays unchanged.");

REGISTER_OP("SokRestoreSlot")
    .Input("table: resource")
    .Input("prefix: string")
    .Attr("table_name: string")
    .Attr("title: string")
    .Attr("slot_name: string")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Sets the rows of a slot, saved as `title`, for those of the keys <table_name>/keys that "
        "the table holds.");

class RestoreSavedOp : public SavedTableOp {
 public:
  using SavedTableOp::SavedTableOp;

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    const std::string prefix = Input(ctx, "prefix").scalar<tf::tstring>()();
    const Chain chain = OpenChain(prefix);
    communicator.Begin();
    communicator.AwaitTurn();
    const auto fill = [&](const TableView& view, const TableView& fresh) {
      communicator.GiveTurn();
      ReadOnAllRanks(communicator, prefix, [&] {
        for (const auto& link : chain) {
          Open(view, link.get());
          Count(link.get());
        }
        if (chain.size() == 1) CheckNumKeysFits(view.options(), chain[0]->num_wanted());
        Fill(call, chain, fresh, view.policy.Now());
        return SignatureOf(chain);
      });
    };
    table.Replace(call, slot_names_, fill, StreamOf(chain));
  }

 private:
  void Fill(OpCall& call, const Chain& chain, const TableView& fresh, int64_t now) const {
    const TableOptions& options = fresh.options();
    int64_t most_keys = 0;
    for (const auto& link : chain) most_keys = std::max(most_keys, link->num_wanted());
    TableFromRows filled(call, fresh, chain[0]->num_wanted(), most_keys, now);
    const auto check = [&](const RowsBlock& block) {
      CheckKeysAre(options, block.count, block.keys(), keys_);
    };
    for (const auto& link : chain) {
      auto keys = TableFromRows::Keys::kUpdated;
      if (link->is_whole()) {
        // Slots of DeepRec's layout come later, and those of keys without one start anew.
        keys = in_buckets() || !options.use_hash_index ? TableFromRows::Keys::kInserted
                                                       : TableFromRows::Keys::kAppended;
      } else {
        RemoveGone(call, *link, fresh);
        filled.Expect(link->num_wanted());
      }
      if (link->element) filled.SetElementOfRows(*link->element);
      for (SavedColumns& columns : link->rows) filled.Fill(columns, keys, check);
      if (link->is_whole() && filled.AreRepeated()) ThrowRepeatedKey(*link, options);
      for (size_t slot = 0; slot < slot_names_.size(); ++slot) {
        ForEachPartOfSlot(*link, slot, [&](SavedColumns& columns) {
          FillExisting(call, fresh.table, columns, 2 + slot, &filled.columns()[1 + slot]);
        });
      }
    }
    FillWaiting(call, *chain.back(), fresh);  // an increment lists all keys without a row
  }

  /// Erases keys that the increment says have lost their rows.
  static void RemoveGone(OpCall& call, SavedLink& link, const TableView& fresh) {
    const std::vector<int64_t> gone = GoneKeys(link);
    if (!gone.empty()) fresh.policy.Erase(call, fresh.table, gone);
  }

  /// Keys that wait for a row. One whose count is enough for the filter gets its row when it comes
  /// next.
  static void FillWaiting(OpCall& call, SavedLink& link, const TableView& fresh) {
    std::vector<int64_t> keys;
    std::vector<KeySeen> seen;
    for (SavedColumns& columns : link.waiting) {
      columns.ForEachBlock([&](const RowsBlock& block) {
        const size_t num_before = keys.size();
        keys.insert(keys.end(), block.keys(), block.keys() + block.count);
        seen.resize(keys.size());
        for (size_t i = 0; i < kNumKeyNumbers; ++i) {
          const auto* numbers = static_cast<const int64_t*>(block.Of(1 + i));
          for (size_t k = num_before; numbers != nullptr && k < keys.size(); ++k)
            seen[k].*kKeyNumbers[i].field = numbers[k - num_before];
        }
      });
    }
    for (KeySeen& each : seen) each.count = std::max<int64_t>(0, each.count);
    if (!keys.empty()) fresh.policy.Import(call, fresh.table, keys, seen);
  }

  [[noreturn]] void ThrowRepeatedKey(SavedLink& link, const TableOptions& options) const {
    std::vector<int64_t> keys;
    for (const SavedColumns& columns : link.rows) {
      const std::vector<int64_t> of_part = columns.Keys();
      keys.insert(keys.end(), of_part.begin(), of_part.end());
    }
    CheckKeysFit(options, std::move(keys), keys_);
    Throw(ErrorCode::kDataLoss, link.rows[0].name_of_keys(), " in the checkpoint ",
          link.saved.prefix(), " has changed while it was read");
  }
};

class RestoreSlot {
 public:
  explicit RestoreSlot(tf::OpKernelConstruction* ctx)
      : name_(Attribute<std::string>(ctx, "table_name")),
        title_(Attribute<std::string>(ctx, "title")),
        slot_name_(Attribute<std::string>(ctx, "slot_name")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    OpCall call(ctx);
    SavedTensors saved(Input(ctx, "prefix").scalar<tf::tstring>()());
    const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
    resource->WithSlots(call, {slot_name_}, [&](const TableView& view) {
      Column slot = std::move(ColumnsOf(call, view, Element::kFloat32)[1]);
      SavedColumns columns(saved, {view.options().placement}, name_ + "/keys");
      CheckPlaneToRestore(view.options(), title_, columns.num_saved(),
                          slot.row_shape.num_elements(), saved.ShapeOf(title_, tf::DT_FLOAT));
      columns.Add(title_, 1);
      columns.Count();
      FillExisting(call, view.table, columns, 1, &slot);
    });
  }

 private:
  const std::string name_, title_, slot_name_;
};

// On a GPU: checkpoints are on the host.
const RegisteredKernel kRestoreKernels[] = {
    {"SokRestoreSaved", Make<RestoreSavedOp>, {"table", "prefix", "collectives"}},
    {"SokRestoreSlot", Make<KernelOf<RestoreSlot>>, {"table", "prefix"}},
};

}  // namespace
}  // namespace sok
