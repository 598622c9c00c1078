// SPDX-License-Identifier: Apache-2.0
// The op behind tf.train.Saver.restore that fills a table from the slices of all ranks.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ops/exchange/descriptions.h"
#include "ops/tf/plane_checks.h"
#include "ops/tf/restored_keys.h"
#include "ops/tf/wanted_rows.h"
#include "ops/tf/whole_table_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

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
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      for (int i = 1; i < c->num_outputs(); ++i) {
        c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
      }
      return absl::OkStatus();
    })
    .Doc(
        "Makes the table hold exactly the keys that the checkpoint has of it, <table_name>/keys, "
        "and "
        "that "
        "this rank owns, with their rows and slots, on all ranks or on none; other slots hold "
        "their "
        "initial value. What does not fit leaves the table as it was. `titles` name the rows, the "
        "slots and ordinary variables, of which it gives the rows of `widths` and their row ids.");

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
      const Wanted wanted = WantedOf(saved, view.options());
      CheckShapes(saved, view, wanted.num_saved);
      CheckKeysFit(view.options(), wanted.keys, keys_);
      FillRows(call, saved, wanted, fresh);
      for (size_t i = 0; i < fresh.places.size(); ++i) {
        FillSlot(call, saved, titles_[1 + i], wanted, fresh,
                 *fresh.planes.slots[fresh.places[i]].plane);
      }
      GiveVariables(ctx, call, saved, wanted, fresh);
      CheckSameCheckpoint(meeting, saved);
    };
    table.Replace(call, slot_names_, fill, StreamOf(saved));
  }

 private:
  struct Wanted {
    int64_t num_saved = 0;
    std::vector<int64_t> keys, places;
  };

  /// What later keys start by; none where another program has written the checkpoint.
  std::optional<uint64_t> StreamOf(SavedTensors& saved) const {
    const std::string name = name_ + "/seed";
    if (!saved.Contains(name)) return std::nullopt;
    const tf::Tensor seed = saved.Read(name, tf::DT_INT64);
    if (seed.NumElements() == 1) return static_cast<uint64_t>(*Data<int64_t>(seed));
    Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", saved.prefix(),
          " has the shape ", seed.shape().DebugString(), "; a seed is a scalar");
  }

  Wanted WantedOf(SavedTensors& saved, const TableOptions& options) const {
    const std::string name = name_ + "/keys";
    const tf::TensorShape shape = saved.ShapeOf(name, tf::DT_INT64);
    if (shape.dims() != 1) {
      Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", saved.prefix(),
            " has the shape ", shape.DebugString(), "; keys are of one dimension");
    }
    Wanted wanted;
    wanted.num_saved = shape.dim_size(0);
    saved.ForEachPart(name, RowsOfPart(2), [&](int64_t first, int64_t count, const char* data) {
      std::vector<int64_t> keys(static_cast<size_t>(count));
      std::copy_n(data, keys.size() * sizeof(int64_t), reinterpret_cast<char*>(keys.data()));
      for (int64_t i = 0; i < count; ++i) {
        if (!options.placement.IsOwned(keys[static_cast<size_t>(i)])) continue;
        wanted.keys.push_back(keys[static_cast<size_t>(i)]);
        wanted.places.push_back(first + i);
      }
    });
    return wanted;
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

  void FillRows(OpCall& call, SavedTensors& saved, const Wanted& wanted,
                const TableView& fresh) const {
    TableFiller filler(call, fresh, static_cast<int64_t>(wanted.keys.size()));
    ForEachWanted(saved, titles_[0], fresh.options().dim, wanted.keys, wanted.places,
                  [&](int64_t count, const int64_t* keys, const float* rows) {
                    filler.Insert(count, keys, rows);
                  });
  }

  static void FillSlot(OpCall& call, SavedTensors& saved, const std::string& title,
                       const Wanted& wanted, const TableView& fresh, Plane& plane) {
    SlotFiller filler(call, fresh, plane, RowsOfPart(plane.width()));
    ForEachWanted(
        saved, title, plane.width(), wanted.keys, wanted.places,
        [&](int64_t count, const int64_t* keys, float* rows) { filler.Write(count, keys, rows); });
  }

  void GiveVariables(tf::OpKernelContext* ctx, OpCall& call, SavedTensors& saved,
                     const Wanted& wanted, const TableView& fresh) const {
    const auto num_keys = static_cast<int64_t>(wanted.keys.size());
    const int64_t num_given = widths_.empty() ? 0 : num_keys;
    int64_t* row_ids = Data<int64_t>(Output(ctx, 0, {num_given}));
    if (num_given > 0) {
      int64_t* found = call.Temporary<int64_t>(num_keys);
      fresh.table.Find(call, num_keys, call.OnDevice(wanted.keys.data(), num_keys), found);
      call.CopyToHost(row_ids, found, num_keys);
    }
    for (size_t i = 0; i < widths_.size(); ++i) {
      float* next = Data<float>(Output(ctx, static_cast<int>(1 + i), {num_keys, widths_[i]}));
      ForEachWanted(saved, titles_[1 + slot_names_.size() + i], widths_[i], wanted.keys,
                    wanted.places, [&](int64_t count, const int64_t*, const float* rows) {
                      next = std::copy_n(rows, count * widths_[i], next);
                    });
    }
  }

  void CheckSameCheckpoint(RankMeeting& meeting, SavedTensors& saved) const {
    const std::string difference = DifferenceOf(
        meeting.Share(saved.SignatureOf(name_ + "/keys") + saved.SignatureOf(titles_[0])));
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
