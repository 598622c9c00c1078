// SPDX-License-Identifier: Apache-2.0
// The op behind tf.train.Saver.restore that fills a table from the slices of all ranks.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ops/exchange/descriptions.h"
#include "ops/tf/output_shapes.h"
#include "ops/tf/plane_checks.h"
#include "ops/tf/restored_keys.h"
#include "ops/tf/saved_streams.h"
#include "ops/tf/table_contents.h"
#include "ops/tf/whole_table_op.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokRestoreRows")
    .Input("table: resource")
    .Input("prefix: string")
    .Input("tickets: num_tickets * variant")
    .Output("row_ids: int64")
    .Output("of_variables: num_variables * float")
    .Attr("num_tickets: int >= 0")
    .Attr("num_variables: int >= 0")
    .Attr("table_name: string")
    .Attr("titles: list(string) >= 1")
    .Attr("slot_names: list(string) >= 0")
    .Attr("widths: list(int) >= 0")
    .Attr("Tkey: {int64, uint32}")
    .SetIsStateful()
    .SetShapeFn(VectorAndMatrices)
    .Doc(
        "Makes the table hold exactly the keys that the checkpoint has of it, <table_name>/keys, "
        "and that this rank owns, with their rows and slots, on all ranks or on none; other slots "
        "hold their initial value. What does not fit leaves the table as it was. `titles` name the "
        "rows, the slots and ordinary variables, of which it gives the rows of `widths` and their "
        "row ids.");

/// Those rows of a block whose keys, its first tensor, this rank owns.
class OwnedRows {
 public:
  explicit OwnedRows(const Placement& placement) : placement_(placement) {}

  void Choose(const SavedBlock& block) {
    block_ = &block;
    const auto* keys = reinterpret_cast<const int64_t*>(block.data[0].data());
    keys_.clear();
    places_.clear();
    for (int64_t i = 0; i < block.count; ++i) {
      if (!placement_.IsOwned(keys[i])) continue;
      keys_.push_back(keys[i]);
      places_.push_back(i);
    }
  }

  int64_t count() const { return static_cast<int64_t>(keys_.size()); }
  const std::vector<int64_t>& keys() const { return keys_; }
  /// What a tensor [any, width] has for them, until the next call.
  const float* Of(size_t tensor, int64_t width) {
    const auto* rows = reinterpret_cast<const float*>(block_->data[tensor].data());
    if (count() == block_->count) return rows;
    chosen_.resize(static_cast<size_t>(count() * width));
    float* next = chosen_.data();
    for (const int64_t place : places_) next = std::copy_n(rows + place * width, width, next);
    return chosen_.data();
  }

 private:
  const Placement placement_;
  const SavedBlock* block_ = nullptr;
  std::vector<int64_t> keys_, places_;
  std::vector<float> chosen_;
};

/// The outputs for ordinary variables.
class VariableRows {
 public:
  VariableRows(tf::OpKernelContext* ctx, const std::vector<int64_t>& widths, int64_t num_keys)
      : widths_(widths),
        next_row_id_(Data<int64_t>(Output(ctx, 0, {widths.empty() ? 0 : num_keys}))) {
    for (size_t i = 0; i < widths.size(); ++i)
      next_.push_back(Data<float>(Output(ctx, static_cast<int>(1 + i), {num_keys, widths[i]})));
  }

  void AddRowIds(OpCall& call, int64_t count, const int64_t* row_ids) {
    if (widths_.empty()) return;
    call.CopyToHost(next_row_id_, row_ids, count);
    next_row_id_ += count;
  }
  void Add(size_t variable, int64_t count, const float* rows) {
    next_[variable] = std::copy_n(rows, count * widths_[variable], next_[variable]);
  }

 private:
  const std::vector<int64_t> widths_;
  int64_t* next_row_id_;
  std::vector<float*> next_;
};

class RestoreRowsOp : public WholeTableOp {
 public:
  explicit RestoreRowsOp(tf::OpKernelConstruction* ctx)
      : WholeTableOp(ctx),
        name_(Attribute<std::string>(ctx, "table_name")),
        titles_(Attribute<std::vector<std::string>>(ctx, "titles")),
        slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
        widths_(Attribute<std::vector<int64_t>>(ctx, "widths")),
        keys_(Attribute<tf::DataType>(ctx, "Tkey") == tf::DT_UINT32 ? KeysOf::kUint32
                                                                    : KeysOf::kInt64) {
    const auto num_variables = Attribute<int64_t>(ctx, "num_variables");
    OP_REQUIRES(ctx,
                titles_.size() == 1 + slot_names_.size() + widths_.size() &&
                    widths_.size() == static_cast<size_t>(num_variables),
                absl::InvalidArgumentError("titles name the rows, the slots and the variables"));
  }

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankMeeting& meeting) override {
    const std::string prefix = ctx->input(1).scalar<tf::tstring>()();
    SavedTensors saved(prefix);
    meeting.Begin();
    meeting.AwaitTurn();
    const auto fill = [&](const TableView& view, const TableView& fresh) {
      meeting.GiveTurn();
      std::optional<Error> error;
      try {
        const Owned owned = CountOwned(saved, view.options());
        CheckShapes(saved, view, owned.num_saved);
        CheckNumKeysFits(view.options(), owned.count);
        Fill(ctx, call, saved, owned, fresh);
      } catch (const Error& raised) {
        error = raised;
      }
      EndTogether(meeting, saved, error);
    };
    table.Replace(call, slot_names_, fill, saved.StreamIn(name_ + "/seed"));
  }

 private:
  /// Keys of this rank.
  struct Owned {
    int64_t num_saved = 0;  // of all ranks
    int64_t count = 0;
    std::set<int64_t> pieces;  // first rows of the slices that have some
  };

  std::string KeysName() const { return name_ + "/keys"; }

  Owned CountOwned(SavedTensors& saved, const TableOptions& options) const {
    const tf::TensorShape shape = saved.ShapeOf(KeysName(), tf::DT_INT64);
    if (shape.dims() != 1) {
      Throw(ErrorCode::kInvalidArgument, KeysName(), " in the checkpoint ", saved.prefix(),
            " has the shape ", shape.DebugString(), "; keys are of one dimension");
    }
    Owned owned;
    owned.num_saved = shape.dim_size(0);
    for (const SavedTensors::Piece& piece : saved.PiecesOf(KeysName())) {
      int64_t of_piece = piece.count;
      if (options.placement.num_ranks > 1) of_piece = NumOwnedIn(saved, piece, options.placement);
      if (of_piece > 0) owned.pieces.insert(piece.first);
      owned.count += of_piece;
    }
    return owned;
  }

  static int64_t NumOwnedIn(SavedTensors& saved, const SavedTensors::Piece& piece,
                            const Placement& placement) {
    constexpr int64_t kKeysAtOnce = 1 << 20;
    PieceReader reader(saved, piece);
    std::string data;
    int64_t num_owned = 0;
    for (int64_t first = 0; first < piece.count; first += kKeysAtOnce) {
      const int64_t count = std::min(kKeysAtOnce, piece.count - first);
      reader.Read(first, count, &data);
      const auto* keys = reinterpret_cast<const int64_t*>(data.data());
      num_owned +=
          std::count_if(keys, keys + count, [&](int64_t key) { return placement.IsOwned(key); });
    }
    return num_owned;
  }

  void CheckShapes(SavedTensors& saved, const TableView& view, int64_t num_saved) const {
    const auto check = [&](const std::string& title, int64_t width) {
      CheckPlaneToRestore(view.options(), title, num_saved, width,
                          saved.ShapeOf(title, tf::DT_FLOAT));
    };
    check(titles_[0], view.options().dim);
    for (size_t i = 0; i < view.places.size(); ++i)
      check(titles_[1 + i], view.planes.slots[view.places[i]].plane->width());
    for (size_t i = 0; i < widths_.size(); ++i)
      check(titles_[1 + slot_names_.size() + i], widths_[i]);
  }

  void Fill(tf::OpKernelContext* ctx, OpCall& call, SavedTensors& saved, const Owned& owned,
            const TableView& fresh) const {
    std::vector<std::string> names{KeysName()};
    names.insert(names.end(), titles_.begin(), titles_.end());
    SavedStreams streams(saved, names);
    TableFiller filler(call, fresh, owned.count);
    std::vector<RowMover> slots;
    for (const size_t place : fresh.places) {
      Plane& plane = *fresh.planes.slots[place].plane;
      slots.emplace_back(call, plane, RowsOfPart(plane.width()));
    }
    VariableRows given(ctx, widths_, owned.count);
    const TableOptions& options = fresh.options();
    int64_t num_filled = 0;
    OwnedRows rows(options.placement);
    streams.ForEachBlock(
        [&](int64_t first) { return owned.pieces.count(first) > 0; },
        [&](const SavedBlock& block) {
          rows.Choose(block);
          if (rows.count() == 0) return;
          CheckKeysAre(options, rows.keys(), keys_);
          const int64_t* row_ids = filler.Insert(rows.count(), rows.keys().data(),
                                                 rows.Of(1, options.dim), /*are_distinct=*/false);
          num_filled += rows.count();
          if (fresh.table.Size(call).num_keys != num_filled) ThrowRepeatedKey(saved, options);
          for (size_t i = 0; i < slots.size(); ++i)
            slots[i].FromHost(rows.count(), row_ids, rows.Of(2 + i, slots[i].width()));
          given.AddRowIds(call, rows.count(), row_ids);
          for (size_t i = 0; i < widths_.size(); ++i)
            given.Add(i, rows.count(), rows.Of(2 + slots.size() + i, widths_[i]));
        });
  }

  [[noreturn]] void ThrowRepeatedKey(SavedTensors& saved, const TableOptions& options) const {
    std::vector<int64_t> owned;
    saved.ForEachPart(KeysName(), RowsOfPart(2), [&](int64_t, int64_t count, const char* data) {
      const auto* keys = reinterpret_cast<const int64_t*>(data);
      std::copy_if(keys, keys + count, std::back_inserter(owned),
                   [&](int64_t key) { return options.placement.IsOwned(key); });
    });
    CheckKeysFit(options, owned, keys_);
    Throw(ErrorCode::kDataLoss, KeysName(), " in the checkpoint ", saved.prefix(),
          " has changed while it was read");
  }

  /// All ranks restore, or all fail: of a file that only one has read, the others say what it is.
  void EndTogether(RankMeeting& meeting, SavedTensors& saved,
                   const std::optional<Error>& error) const {
    std::string said = "read ";
    if (error) {
      said = "failed " + std::to_string(static_cast<int>(error->code())) + " " + error->what();
    } else {
      said += saved.SignatureOf(KeysName()) + saved.SignatureOf(titles_[0]);
    }
    const std::vector<std::string> all = meeting.Share(said);
    if (error) throw *error;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      int code = 0, start = 0;
      if (std::sscanf(all[rank].c_str(), "failed %d %n", &code, &start) != 1) continue;
      Throw(static_cast<ErrorCode>(code), "rank ", rank, ": ",
            all[rank].substr(static_cast<size_t>(start)));
    }
    const std::string difference = DifferenceOf(all);
    if (!difference.empty()) ThrowDifferentCheckpoints(saved.prefix(), difference);
  }

  const std::string name_;
  const std::vector<std::string> titles_;  // of the rows, the slots and the variables
  const std::vector<std::string> slot_names_;
  const std::vector<int64_t> widths_;
  const KeysOf keys_;
};

// On a GPU: checkpoints are on the host.
SOK_REGISTER_KERNEL(Name("SokRestoreRows")
                        .HostMemory("table")
                        .HostMemory("prefix")
                        .HostMemory("tickets")
                        .HostMemory("row_ids")
                        .HostMemory("of_variables"),
                    RestoreRowsOp);

}  // namespace
}  // namespace sok
