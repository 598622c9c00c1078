// SPDX-License-Identifier: Apache-2.0
// The op behind tf.train.Saver.restore, which fills a table from the slices of all ranks.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/checkpoint/restore/restored_together.h"
#include "ops/tf/checkpoint/restore/rows_op.h"
#include "ops/tf/tables/table_from_rows.h"

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
    OpCall& call;
    const TableView& fresh;
    TableFromRows table;
    RowsOfVariables of_variables;
  };

  void Fill(tf::OpKernelContext* ctx, OpCall& call, const Chain& chain, const TableView& fresh,
            int64_t now) const {
    int64_t most_keys = 0, num_keys = 0;
    for (const auto& link : chain) {
      most_keys = std::max(most_keys, link->owned.count);
      num_keys += link->owned.count;
    }
    Target target{call, fresh,
                  TableFromRows(call, fresh, chain[0]->owned.count, most_keys,
                                /*are_distinct=*/false, now),
                  RowsOfVariables(ctx, widths_, num_keys)};
    for (const auto& link : chain) {
      if (!link->is_whole()) {
        RemoveGone(*link, &target);
        target.table.Expect(fresh.table.Size(call).num_keys + link->owned.count);
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
    if (target->table.EndAppending() > 0) ThrowRepeatedKey(link, options);
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

  /// Adds the rows: of a whole checkpoint at consecutive row ids.
  void Put(OwnedRows& rows, Link& link, Target* target) const {
    const TableOptions& options = target->fresh.options();
    const int64_t* keys = rows.keys().data();
    const auto of_column = [&](size_t i) -> const void* {
      const size_t tensor = TensorOfColumn(link, i);
      return tensor == 0 ? nullptr : rows.Of(tensor, target->table.columns()[i].row_bytes());
    };
    const auto of_variable = [&](size_t i) { return RowsOfVariable(rows, i); };
    if (link.is_whole() && options.use_hash_index) {
      const int64_t first = target->table.Append(rows.count(), keys, of_column);
      target->of_variables.AddInOrder(rows.count(), first, of_variable);
      return;
    }
    const int64_t num_before = target->fresh.table.Size(target->call).num_keys;
    const int64_t* row_ids = target->table.Insert(rows.count(), keys, of_column, link.is_whole());
    target->of_variables.Add(target->call, rows.count(), row_ids, !link.is_whole(), of_variable);
    const int64_t num_keys = target->fresh.table.Size(target->call).num_keys;
    if (link.is_whole() && num_keys != num_before + rows.count()) ThrowRepeatedKey(link, options);
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
const RegisteredKernel kRestoreKernels[] = {
    {"SokRestoreRows",
     Make<RestoreRowsOp>,
     {"table", "prefix", "collectives", "row_ids", "of_variables"}},
};

}  // namespace
}  // namespace sok
