// SPDX-License-Identifier: Apache-2.0
// The op behind tf.train.Saver.restore, which fills a table from the slices of all ranks.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/tf/base/output_shapes.h"
#include "ops/tf/checkpoint/restore/restored_together.h"
#include "ops/tf/checkpoint/restore/rows_op.h"
#include "ops/tf/tables/columns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokRestoreRows")
    .Input("table: resource")
    .Input("prefix: string")
    .Input("collectives: num_collectives * variant")
    .Output("row_ids: int64")
    .Output("of_variables: num_variables * float")
    .Attr("num_collectives: int >= 0")
    .Attr("num_variables: int >= 0")
    .Attr("table_name: string")
    .Attr("titles: list(string) >= 1")
    .Attr("slot_names: list(string) >= 0")
    .Attr("widths: list(int) >= 0")
    .Attr("Tkey: {int64, uint32}")
    .SetIsStateful()
    .SetShapeFn(VectorAndMatrices)
    .Doc(
        "Makes the table hold exactly the keys <table_name>/keys of the checkpoint that this "
        "rank owns, with their rows and slots, on all ranks or on none; unnamed slots start at "
        "their initial value. An increment is applied to the checkpoints that it is based on. If "
        "the checkpoint does not fit, the table stays unchanged. `titles` name the rows, the "
        "slots and ordinary variables; of the latter it outputs the rows, of `widths`, and their "
        "row ids.");

class RestoreRowsOp : public RowsOp {
 public:
  explicit RestoreRowsOp(tf::OpKernelConstruction* ctx) : RowsOp(ctx) {}

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    const std::string prefix = Input(ctx, "prefix").scalar<tf::tstring>()();
    const Chain chain = OpenChain(prefix);
    communicator.Begin();
    communicator.AwaitTurn();
    const int64_t now = table.Now();
    const auto fill = [&](const TableView& view, const TableView& fresh) {
      communicator.GiveTurn();
      ReadOnAllRanks(communicator, prefix, [&] {
        for (const auto& link : chain) {
          CheckShapes(view, *link);
          link->owned = OwnedKeys::Count(link->saved, KeysIn(*link), view.options().placement);
        }
        if (chain.size() == 1) CheckNumKeysFits(view.options(), chain[0]->owned.count);
        Fill(ctx, call, chain, fresh, now);
        return SignatureOf(chain);
      });
    };
    table.Replace(call, slot_names_, fill, chain[0]->saved.StreamIn(name_ + "/seed"));
  }

 private:
  /// The destination of rows.
  struct Target {
    Target(tf::OpKernelContext* ctx, OpCall& op_call, const TableView& view,
           const std::vector<int64_t>& widths, const Chain& chain, int64_t moment)
        : call(op_call),
          fresh(view),
          filler(op_call, view, chain[0]->owned.count, MostKeys(chain)),
          of_variables(ctx, widths, NumKeys(chain)),
          other_slots(view.planes.slots) {
      AddPlane(*view.planes.rows);
      for (const size_t place : view.places) {
        AddPlane(*view.planes.slots[place].plane);
        other_slots[place].initial_value = 0;  // as if never written
      }
      if (view.limits_keys()) numbers = ColumnsOfHistory(call, "", *view.history, moment);
    }

    void AddPlane(Plane& plane) {
      planes.push_back(ColumnOf("", RowMover(call, plane, RowsOfPart(plane.width()))));
    }

    static int64_t MostKeys(const Chain& chain) {
      int64_t most = 0;
      for (const auto& link : chain) most = std::max(most, link->owned.count);
      return most;
    }
    static int64_t NumKeys(const Chain& chain) {
      int64_t count = 0;
      for (const auto& link : chain) count += link->owned.count;
      return count;
    }

    OpCall& call;
    const TableView& fresh;
    TableFiller filler;
    std::vector<Column> planes;   // the rows, then the slots
    std::vector<Column> numbers;  // of the history of a table that limits its keys
    RowsOfVariables of_variables;
    std::vector<Planes::Slot> other_slots;
  };

  void Fill(tf::OpKernelContext* ctx, OpCall& call, const Chain& chain, const TableView& fresh,
            int64_t now) const {
    Target target(ctx, call, fresh, widths_, chain, now);
    for (const auto& link : chain) {
      if (!link->is_whole()) {
        RemoveGone(*link, &target);
        target.filler.Expect(fresh.table.Size(call).num_keys + link->owned.count);
      }
      FillFrom(*link, &target);
    }
    target.of_variables.Output(ctx);
  }

  /// Erases keys that the increment says have lost their rows.
  void RemoveGone(Link& link, Target* target) const {
    OpCall& call = target->call;
    const std::vector<int64_t> gone =
        ReadOwnedKeys(link.saved, name_ + kGoneEnding, target->fresh.options().placement);
    const auto count = static_cast<int64_t>(gone.size());
    if (count == 0) return;
    const int64_t* keys = call.OnDevice(gone.data(), count);
    auto* row_ids = call.Temporary<int64_t>(count);
    target->fresh.table.Find(call, count, keys, row_ids);
    target->of_variables.Remove(call, count, row_ids);
    target->fresh.table.Erase(call, count, keys);
  }

  void FillFrom(Link& link, Target* target) const {
    const TableOptions& options = target->fresh.options();
    SavedStreams streams(link.saved, NamesIn(link));
    OwnedRows rows(options.placement);
    SavedStreams::Place place;
    if (options.use_hash_index && link.is_whole() && link.owned.count <= options.capacity &&
        link.owned.pieces_are_whole && streams.AreSlicedAlike())
      place = PlaceInPlanes(link.owned.count, target);
    streams.ForEachBlock([&](int64_t first) { return link.owned.pieces.count(first) > 0; },
                         [&](const SavedBlock& block) {
                           rows.Choose(block);
                           if (rows.count() == 0) return;
                           CheckKeysAre(options, rows.keys(), keys_);
                           Put(rows, link, target);
                         },
                         place);
    if (target->filler.EndAppending() > 0) ThrowRepeatedKey(link, options);
  }

  /// The final destination of a whole checkpoint's rows if that is in the host's memory: at the row
  /// ids that Append assigns. Nobody reads there meanwhile.
  SavedStreams::Place PlaceInPlanes(int64_t count, Target* target) const {
    if (!target->call.engine().IsHostMemory()) return nullptr;
    for (Column& plane : target->planes) plane.source->ExpectRows(count);
    return [target](size_t tensor, int64_t row) -> char* {
      if (tensor == 0 || tensor > target->planes.size()) return nullptr;
      return target->planes[tensor - 1].source->rows().From(row).As<char>();
    };
  }

  void Put(OwnedRows& rows, Link& link, Target* target) const {
    const TableOptions& options = target->fresh.options();
    if (link.is_whole() && options.use_hash_index) {
      Append(rows, link, target);
      return;
    }
    const int64_t num_before = target->fresh.table.Size(target->call).num_keys;
    Insert(rows, link, target);
    const int64_t num_keys = target->fresh.table.Size(target->call).num_keys;
    if (link.is_whole() && num_keys != num_before + rows.count()) ThrowRepeatedKey(link, options);
  }

  /// Adds rows at consecutive row ids.
  void Append(OwnedRows& rows, const Link& link, Target* target) const {
    const int64_t count = rows.count();
    const int64_t first = target->filler.Append(count, rows.keys().data());
    ForEachColumn(rows, link, target, [&](Column& column, const void* numbers) {
      column.source->FromHostInOrder(count, first, numbers);
    });
    for (const Planes::Slot& slot : target->other_slots) {
      if (slot.initial_value == 0) continue;
      slot.plane->ExpectRows(first + count);
      WithElement(slot.plane->data().From(first), [&](auto* to) {
        target->call.engine().Fill(target->call, to, count * slot.plane->width(),
                                   slot.initial_value);
      });
    }
    target->of_variables.AddInOrder(count, first,
                                    [&](size_t i) { return RowsOfVariable(rows, i); });
  }

  void Insert(OwnedRows& rows, const Link& link, Target* target) const {
    const bool are_fresh = link.is_whole();  // none of these keys has been added before
    const auto* values = static_cast<const float*>(rows.Of(1, target->planes[0].row_bytes()));
    const int64_t* row_ids = target->filler.Insert(rows.count(), rows.keys().data(), values,
                                                   /*are_distinct=*/false);
    ForEachColumn(rows, link, target, [&](Column& column, const void* numbers) {
      if (are_fresh && &column == &target->planes[0]) return;  // inserted with the keys
      column.source->FromHost(rows.count(), row_ids, numbers);
    });
    target->of_variables.Add(target->call, rows.count(), row_ids, !are_fresh,
                             [&](size_t i) { return RowsOfVariable(rows, i); });
  }

  /// Calls put(column, its numbers for these rows) for all columns that the checkpoint has.
  template <typename Put>
  void ForEachColumn(OwnedRows& rows, const Link& link, Target* target, const Put& put) const {
    size_t tensor = 1;
    for (Column& plane : target->planes) put(plane, rows.Of(tensor++, plane.row_bytes()));
    tensor = 1 + titles_.size();
    if (!link.has_history) return;
    for (Column& number : target->numbers) put(number, rows.Of(tensor++, number.row_bytes()));
  }

  const float* RowsOfVariable(OwnedRows& rows, size_t i) const {
    const size_t tensor = 2 + slot_names_.size() + i;
    return static_cast<const float*>(rows.Of(tensor, widths_[i] * int64_t{sizeof(float)}));
  }

  [[noreturn]] void ThrowRepeatedKey(Link& link, const TableOptions& options) const {
    CheckKeysFit(options, ReadOwnedKeys(link.saved, KeysIn(link), options.placement), keys_);
    Throw(ErrorCode::kDataLoss, KeysIn(link), " in the checkpoint ", link.saved.prefix(),
          " has changed while it was read");
  }
};

// On a GPU: checkpoints are on the host.
SOK_REGISTER_KERNEL(Name("SokRestoreRows")
                        .HostMemory("table")
                        .HostMemory("prefix")
                        .HostMemory("collectives")
                        .HostMemory("row_ids")
                        .HostMemory("of_variables"),
                    RestoreRowsOp);

}  // namespace
}  // namespace sok
