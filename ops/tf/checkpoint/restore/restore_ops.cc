// SPDX-License-Identifier: Apache-2.0
// The op that fills a table from a checkpoint, in either layout.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/checkpoint/layout/rows_of_variables.h"
#include "ops/tf/checkpoint/restore/restored_together.h"
#include "ops/tf/checkpoint/restore/saved_table_op.h"
#include "ops/tf/tables/contents/table_from_rows.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokRestoreSaved")
    .Input("table: resource")
    .Input("prefix: string") SOK_COLLECTIVES.SetIsStateful() SOK_SAVED_TABLE_ATTRIBUTES
    .Output("row_ids: int64")
    .Output("of_variables: num_variables * float")
    .Attr("num_variables: int >= 0 = 0")
    .SetShapeFn(VectorAndMatrices)
    .Doc(
        "Makes the table hold exactly the checkpoint's keys that this rank owns and, of a part, "
        "whose bucket is `part` modulo num_parts, with their rows, slots and history, on all ranks "
        "or on none, however many ranks or parts have saved them. An increment is applied to the "
        "checkpoints that it is based on. Unnamed slots start at their initial value; in DeepRec's "
        "layout also those that are not required and missing, and rows of keys that a slot was not "
        "saved for. If the checkpoint does not fit, the table stays unchanged. Of ordinary "
        "variables it outputs the rows, of `widths`, and their row ids.");

class RestoreSavedOp : public SavedTableOp {
 public:
  explicit RestoreSavedOp(tf::OpKernelConstruction* ctx) : SavedTableOp(ctx) {}

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
        const WantedKeys wanted = Wanted(view.options());
        for (const auto& link : chain) {
          Open(view, link.get());
          Count(wanted, link.get());
        }
        if (chain.size() == 1) CheckNumKeysFits(view.options(), chain[0]->num_wanted());
        Fill(ctx, call, chain, wanted, fresh, view.policy.Now());
        return SignatureOf(chain);
      });
    };
    table.Replace(call, slot_names_, fill, StreamOf(*chain[0]));
  }

 private:
  /// The destination of rows.
  struct Target {
    OpCall& call;
    const WantedKeys& wanted;
    const TableView& fresh;
    TableFromRows table;
    RowsOfVariables of_variables;
  };

  void Fill(tf::OpKernelContext* ctx, OpCall& call, const Chain& chain, const WantedKeys& wanted,
            const TableView& fresh, int64_t now) const {
    int64_t most_keys = 0, num_keys = 0;
    for (const auto& link : chain) {
      most_keys = std::max(most_keys, link->num_wanted());
      num_keys += link->num_wanted();
    }
    Target target{call, wanted, fresh,
                  TableFromRows(call, fresh, chain[0]->num_wanted(), most_keys,
                                /*are_distinct=*/false, now),
                  RowsOfVariables(ctx, widths_, num_keys)};
    for (const auto& link : chain) {
      if (!link->is_whole()) {
        RemoveGone(*link, &target);
        target.table.Expect(fresh.table.Size(call).num_keys + link->num_wanted());
      }
      for (const SavedColumns& columns : link->rows) FillFrom(*link, columns, &target);
      if (target.table.EndAppending() > 0) ThrowRepeatedKey(*link, target);
      FillSlots(*link, &target);
    }
    FillWaiting(*chain.back(), &target);  // an increment lists all keys without a row
    target.of_variables.Output(ctx);
  }

  /// Erases keys that the increment says have lost their rows.
  static void RemoveGone(SavedLink& link, Target* target) {
    OpCall& call = target->call;
    for (const std::string& name : link.gone) {
      const std::vector<int64_t> gone = ReadWantedKeys(link.saved, name, target->wanted);
      const auto count = static_cast<int64_t>(gone.size());
      if (count == 0) continue;
      const int64_t* keys = call.OnDevice(gone.data(), count);
      auto* row_ids = call.Temporary<int64_t>(count);
      target->fresh.table.Find(call, count, keys, row_ids);
      target->of_variables.Remove(call, count, row_ids);
      target->fresh.table.Erase(call, count, keys);
    }
  }

  /// A whole checkpoint's keys get consecutive rows, unless slots come later.
  bool Appends(const SavedLink& link, const Target& target) const {
    return link.is_whole() && !in_buckets() && target.fresh.options().use_hash_index;
  }

  void FillFrom(SavedLink& link, const SavedColumns& columns, Target* target) const {
    const TableOptions& options = target->fresh.options();
    SavedStreams::Place place;
    if (Appends(link, *target) && columns.num_wanted <= options.capacity &&
        columns.AreWholeSlices(link.saved))
      place = PlaceInPlanes(columns.num_wanted, target);
    columns.ForEachBlock(
        link.saved, target->wanted,
        [&](WantedRows& rows) {
          CheckKeysAre(options, rows.keys(), keys_);
          Put(rows, link, columns, target);
        },
        place);
  }

  /// The final destination of a whole checkpoint's rows if that is in the host's memory: at the row
  /// ids that Append assigns. Nobody reads there meanwhile.
  SavedStreams::Place PlaceInPlanes(int64_t count, Target* target) const {
    if (!target->call.engine().IsHostMemory()) return nullptr;
    const size_t num_planes = 1 + slot_names_.size();
    for (size_t i = 0; i < num_planes; ++i) target->table.columns()[i].source->ExpectRows(count);
    return [target, num_planes](size_t tensor, int64_t row) -> char* {
      if (tensor == 0 || tensor > num_planes) return nullptr;
      return target->table.columns()[tensor - 1].source->rows().From(row).As<char>();
    };
  }

  void Put(WantedRows& rows, SavedLink& link, const SavedColumns& columns, Target* target) const {
    const TableView& fresh = target->fresh;
    const int64_t* keys = rows.keys().data();
    const size_t num_columns = target->table.columns().size();
    const auto at = [&](size_t place, int64_t row_bytes) -> const void* {
      for (size_t i = 0; i < columns.columns.size(); ++i) {
        if (columns.columns[i].place == place && columns.columns[i].width == 0)
          return rows.Of(1 + i, row_bytes);
      }
      return nullptr;  // the checkpoint lacks it, or has rows of another width
    };
    const auto of_column = [&](size_t i) { return at(i, target->table.columns()[i].row_bytes()); };
    const auto of_variable = [&](size_t i) {
      return static_cast<const float*>(at(num_columns + i, widths_[i] * int64_t{sizeof(float)}));
    };
    if (Appends(link, *target)) {
      const int64_t first = target->table.Append(rows.count(), keys, of_column);
      target->of_variables.AddInOrder(rows.count(), first, of_variable);
      return;
    }
    const int64_t num_before = fresh.table.Size(target->call).num_keys;
    const int64_t* row_ids = target->table.Insert(rows.count(), keys, of_column, link.is_whole());
    target->of_variables.Add(target->call, rows.count(), row_ids, !link.is_whole(), of_variable);
    for (size_t i = 0; i < columns.columns.size(); ++i) {
      const int64_t row_bytes = columns.columns[i].width * int64_t{sizeof(float)};
      if (row_bytes == 0) continue;
      const auto* saved = static_cast<const char*>(rows.Of(1 + i, row_bytes));
      Write(target->table.columns()[columns.columns[i].place], rows.count(), row_ids, saved,
            row_bytes);
    }
    const int64_t num_keys = fresh.table.Size(target->call).num_keys;
    if (link.is_whole() && num_keys != num_before + rows.count()) ThrowRepeatedKey(link, *target);
  }

  /// Writes rows of `row_bytes` bytes each; what they lack of the table's rows stays there.
  static void Write(Column& column, int64_t count, const int64_t* row_ids, const char* rows,
                    int64_t row_bytes) {
    const int64_t to_bytes = column.row_bytes();
    if (row_bytes == to_bytes) return column.source->FromHost(count, row_ids, rows);
    std::vector<char> room(static_cast<size_t>(count * to_bytes));
    column.source->ToHost(count, row_ids, room.data());
    for (int64_t i = 0; i < count; ++i)
      std::copy_n(rows + i * row_bytes, std::min(row_bytes, to_bytes), room.data() + i * to_bytes);
    column.source->FromHost(count, row_ids, room.data());
  }

  /// Slots with keys of their own: those that the table lacks are skipped.
  void FillSlots(SavedLink& link, Target* target) const {
    OpCall& call = target->call;
    for (size_t i = 0; i < slot_names_.size(); ++i) {
      Column& column = target->table.columns()[1 + i];
      const int64_t most = column.RowsAtOnce(), width = column.row_shape.num_elements();
      int64_t *keys = nullptr, *row_ids = nullptr;  // on the device
      std::vector<int64_t> held;
      std::vector<char> room;
      const auto write = [&](WantedRows& rows, int64_t row_bytes) {
        if (keys == nullptr) {
          keys = call.Temporary<int64_t>(most);
          row_ids = call.Temporary<int64_t>(most);
        }
        const int64_t count = rows.count();
        const auto* values = static_cast<const char*>(rows.Of(1, row_bytes));
        call.CopyFromHost(keys, rows.keys().data(), count);
        target->fresh.table.Find(call, count, keys, row_ids);
        held.resize(static_cast<size_t>(count));
        call.CopyToHost(held.data(), row_ids, count);
        room.clear();
        for (int64_t k = 0; k < count; ++k) {
          if (held[static_cast<size_t>(k)] >= 0)
            room.insert(room.end(), values + k * row_bytes, values + (k + 1) * row_bytes);
        }
        held.erase(std::remove_if(held.begin(), held.end(), [](int64_t id) { return id < 0; }),
                   held.end());
        const auto num_held = static_cast<int64_t>(held.size());
        call.CopyFromHost(row_ids, held.data(), num_held);
        Write(column, num_held, row_ids, room.data(), row_bytes);
      };
      ForEachPartOfSlot(link, target->wanted, i, width, [&](const SavedColumns& columns) {
        const int64_t saved = columns.columns.empty() ? 0 : columns.columns[0].width;
        const int64_t row_bytes = (saved > 0 ? saved : width) * int64_t{sizeof(float)};
        columns.ForEachBlock(link.saved, target->wanted,
                             [&](WantedRows& rows) { write(rows, row_bytes); });
      });
    }
  }

  /// Keys that wait for a row. One whose count is enough for the filter gets its row when it comes
  /// next.
  static void FillWaiting(SavedLink& link, Target* target) {
    std::vector<int64_t> keys;
    std::vector<KeySeen> seen;
    for (const SavedColumns& columns : link.waiting) {
      columns.ForEachBlock(link.saved, target->wanted, [&](WantedRows& rows) {
        keys.insert(keys.end(), rows.keys().begin(), rows.keys().end());
        seen.resize(keys.size());
        for (size_t i = 0; i < columns.columns.size(); ++i) {
          const auto* numbers = static_cast<const int64_t*>(rows.Of(1 + i, sizeof(int64_t)));
          KeySeen* next = seen.data() + (keys.size() - rows.keys().size());
          for (int64_t k = 0; k < rows.count(); ++k)
            next[k].*kKeyNumbers[columns.columns[i].place].field = numbers[k];
        }
      });
    }
    for (KeySeen& each : seen) each.count = std::max<int64_t>(0, each.count);
    if (!keys.empty()) target->fresh.policy.Import(target->call, target->fresh.table, keys, seen);
  }

  [[noreturn]] void ThrowRepeatedKey(SavedLink& link, const Target& target) const {
    std::vector<int64_t> keys;
    for (const SavedColumns& columns : link.rows) {
      const std::vector<int64_t> of_part = ReadWantedKeys(link.saved, columns.keys, target.wanted);
      keys.insert(keys.end(), of_part.begin(), of_part.end());
    }
    CheckKeysFit(target.fresh.options(), std::move(keys), keys_);
    Throw(ErrorCode::kDataLoss, link.rows[0].keys, " in the checkpoint ", link.saved.prefix(),
          " has changed while it was read");
  }
};

// On a GPU: checkpoints are on the host.
const RegisteredKernel kRestoreKernels[] = {
    {"SokRestoreSaved",
     Make<RestoreSavedOp>,
     {"table", "prefix", "collectives", "row_ids", "of_variables"}},
};

}  // namespace
}  // namespace sok
