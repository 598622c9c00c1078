// SPDX-License-Identifier: Apache-2.0
// Ops that restore tables from checkpoints of DeepRec's layout, and read other tensors of these.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/tf/base/kernels.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/checkpoint/restore/buckets_op.h"
#include "ops/tf/checkpoint/restore/restored_together.h"
#include "ops/tf/tables/table_from_rows.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokRestoreBuckets")
    .Input("table: resource")
    .Input("prefix: string") SOK_COLLECTIVES.Attr("heads: list(string) >= 1")
    .Attr("tails: list(string) >= 1")
    .Attr("slot_names: list(string) >= 0")
    .Attr("slot_is_required: list(bool) >= 0")
    .Attr("num_buckets: int >= 1")
    .Attr("num_parts: int >= 1 = 1")
    .Attr("part: int >= 0 = 0")
    .Attr("Tkey: {int64, int32}")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the table hold exactly the checkpoint's keys that this rank owns and whose bucket "
        "is `part` modulo num_parts, however many parts it was saved in. heads and tails name "
        "the rows, then each named slot. A slot starts at its initial value for keys that it was "
        "not saved for, as do unnamed slots, and optional ones that the checkpoint lacks. If the "
        "checkpoint does not fit, the table stays unchanged on all ranks. A table that keeps the "
        "history of keys gets that of the checkpoint, also of keys that wait for a row.");

REGISTER_OP("SokReadSavedTensor")
    .Input("prefix: string")
    .Output("is_there: bool")
    .Output("value: dtype")
    .Attr("names: list(string) >= 1")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Attr("hint: string")
    .Attr("is_required: bool")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->UnknownShape());
      return absl::OkStatus();
    })
    .Doc(
        "The first of the named tensors that the checkpoint has. If it does not have the shape, "
        "the error ends with the hint; a vector of one value is accepted as a scalar. If the "
        "checkpoint has none of them, and none is required, the output is empty.");

class RestoreBucketsOp : public BucketsOp {
 public:
  explicit RestoreBucketsOp(tf::OpKernelConstruction* ctx) : BucketsOp(ctx) {}

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    PartsToRestore found;
    const std::vector<std::string> chain =
        ChainOf(TfFileSystem(), Input(ctx, "prefix").scalar<tf::tstring>()());
    SavedBuckets saved(chain.front());
    communicator.Begin();
    communicator.AwaitTurn();
    const auto fill = [&](const TableView& view, const TableView& fresh) {
      communicator.GiveTurn();
      ReadOnAllRanks(communicator, chain.back(), [&] {
        const WantedKeys wanted = Wanted(view.options());
        found = ReadKeys(saved, names_.front(), wanted);
        CheckKeysFit(view.options(), found.held.keys, keys_);
        FillRows(call, saved, found, fresh);
        FillSlots(call, saved, found, names_, wanted, fresh);
        std::string signature = SignatureOf(saved, found, names_);
        if (chain.size() > 1) {
          MergedKeys merged(&found);
          for (size_t i = 1; i < chain.size(); ++i)
            signature += AddIncrement(call, chain[i], wanted, fresh, &merged);
        }
        if (fresh.history != nullptr) RestoreHistory(call, fresh, found);
        return signature;
      });
    };
    table.Replace(call, slot_names_, fill, StreamOf(saved));
  }

 private:
  /// Applies an increment to the table; returns its signature.
  std::string AddIncrement(OpCall& call, const std::string& prefix, const WantedKeys& wanted,
                           const TableView& fresh, MergedKeys* merged) const {
    SavedBuckets saved(prefix);
    const std::vector<PlaneName> names = NamesOfIncrement();
    const PartsToRestore found = ReadKeys(saved, names.front(), wanted);
    CheckKeysFit(fresh.options(), found.held.keys, keys_);
    const std::vector<int64_t> gone = GoneKeys(saved, names.front(), found, wanted);
    const auto num_gone = static_cast<int64_t>(gone.size());
    fresh.table.Erase(call, num_gone, call.OnDevice(gone.data(), num_gone));
    merged->Remove(gone);
    FillRows(call, saved, found, fresh);
    FillSlots(call, saved, found, names, wanted, fresh);
    merged->Add(found);
    return SignatureOf(saved, found, names);
  }

  /// Keys with a row keep it, whatever the filter. A key without a row whose count is enough for
  /// the filter gets its row when it comes next.
  static void RestoreHistory(OpCall& call, const TableView& fresh, const PartsToRestore& found) {
    std::vector<int64_t> keys = found.held.keys;
    std::vector<KeySeen> seen = found.held.seen;
    const int64_t as_admitted = std::max<int64_t>(1, fresh.history->options().filter_freq);
    for (KeySeen& each : seen) each.count = each.count < 0 ? as_admitted : each.count;
    keys.insert(keys.end(), found.waiting.keys.begin(), found.waiting.keys.end());
    for (KeySeen each : found.waiting.seen) {
      each.count = std::max<int64_t>(0, each.count);
      seen.push_back(each);
    }
    fresh.policy.Import(call, fresh.table, keys, seen);
  }

  void FillSlots(OpCall& call, SavedBuckets& saved, const PartsToRestore& found,
                 const std::vector<PlaneName>& names, const WantedKeys& wanted,
                 const TableView& fresh) const {
    for (size_t i = 0; i < fresh.places.size(); ++i) {
      if (!slot_is_required_[i] && IsMissing(saved, found, names[i + 1])) continue;
      FillSlot(call, saved, found, names[i + 1], wanted, fresh,
               *fresh.planes.slots[fresh.places[i]].plane);
    }
  }

  static void FillRows(OpCall& call, SavedBuckets& saved, const PartsToRestore& found,
                       const TableView& fresh) {
    const int64_t dim = fresh.options().dim;
    const auto num_keys = static_cast<int64_t>(found.held.keys.size());
    const int64_t num_before = fresh.table.Size(call).num_keys;
    TableFromRows filled(call, fresh, num_before + num_keys, num_keys, /*are_distinct=*/true);
    for (const SavedKeys& rows : found.rows) {
      saved.ForEachChunk(rows, dim, [&](int64_t count, const int64_t* keys, const float* values) {
        const auto numbers = [&](size_t column) { return column == 0 ? values : nullptr; };
        filled.Insert(count, keys, numbers, /*are_fresh=*/num_before == 0);
      });
    }
  }

  static void FillSlot(OpCall& call, SavedBuckets& saved, const PartsToRestore& found,
                       const PlaneName& name, const WantedKeys& wanted, const TableView& fresh,
                       Plane& plane) {
    SlotFiller filler(call, fresh, plane, RowsOfPart(plane.width()));
    ForEachRowOfSlot(saved, found, name, wanted, plane.width(),
                     [&](int64_t count, const int64_t* keys, float* values) {
                       filler.Write(count, keys, values);
                     });
  }
};

class ReadSavedTensorOp : public tf::OpKernel {
 public:
  explicit ReadSavedTensorOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        names_(Attribute<std::vector<std::string>>(ctx, "names")),
        dtype_(Attribute<tf::DataType>(ctx, "dtype")),
        shape_(Attribute<tf::TensorShape>(ctx, "shape")),
        hint_(Attribute<std::string>(ctx, "hint")),
        is_required_(Attribute<bool>(ctx, "is_required")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      SavedBuckets saved(Input(ctx, "prefix").scalar<tf::tstring>()());
      const auto name = std::find_if(names_.begin(), names_.end(),
                                     [&](const std::string& each) { return saved.Contains(each); });
      const bool is_there = name != names_.end();
      *Data<bool>(Output(ctx, "is_there", {})) = is_there;
      SetOutput(ctx, "value",
                is_there || is_required_ ? Read(saved, is_there ? *name : names_.front())
                                         : tf::Tensor(dtype_, tf::TensorShape({0})));
    });
  }

 private:
  tf::Tensor Read(SavedBuckets& saved, const std::string& name) const {
    const tf::Tensor value = saved.Read(name, dtype_);
    tf::Tensor given(dtype_);
    const bool is_scalar = shape_.dims() == 0 && value.NumElements() == 1;
    if ((is_scalar || value.shape() == shape_) && given.CopyFrom(value, shape_)) return given;
    Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", saved.prefix(),
          " has the shape ", value.shape().DebugString(), ", not ", shape_.DebugString(), ": ",
          hint_);
  }

  const std::vector<std::string> names_;
  const tf::DataType dtype_;
  const tf::TensorShape shape_;
  const std::string hint_;
  const bool is_required_;
};

// On a GPU: checkpoints are on the host.
const RegisteredKernel kBucketKernels[] = {
    {"SokRestoreBuckets", Make<RestoreBucketsOp>, {"table", "prefix", "collectives"}},
    {"SokReadSavedTensor", Make<ReadSavedTensorOp>, {"prefix", "is_there", "value"}},
};

}  // namespace
}  // namespace sok
