// SPDX-License-Identifier: Apache-2.0
// Ops that fill tables from checkpoints of DeepRec's layout, and read what stands beside them.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/exchange/descriptions.h"
#include "ops/tf/checkpoint_series.h"
#include "ops/tf/output_shapes.h"
#include "ops/tf/plane_checks.h"
#include "ops/tf/restored_keys.h"
#include "ops/tf/saved_buckets.h"
#include "ops/tf/whole_table_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/logging.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokRestoreBuckets")
    .Input("table: resource")
    .Input("prefix: string")
    .Input("tickets: num_tickets * variant")
    .Output("keys: int64")
    .Output("versions: int64")
    .Output("freqs: int64")
    .Output("filtered_keys: int64")
    .Output("filtered_versions: int64")
    .Output("filtered_freqs: int64")
    .Attr("num_tickets: int >= 0")
    .Attr("heads: list(string) >= 1")
    .Attr("tails: list(string) >= 1")
    .Attr("slot_names: list(string) >= 0")
    .Attr("slot_is_required: list(bool) >= 0")
    .Attr("num_buckets: int >= 1")
    .Attr("num_parts: int >= 1 = 1")
    .Attr("part: int >= 0 = 0")
    .Attr("Tkey: {int64, int32}")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "Makes the table hold exactly the keys of its part, buckets that are `part` modulo "
        "num_parts, that the checkpoint has of it, in whatever parts it was saved, and that this "
        "rank owns. The i-th of heads and tails name the rows, then the named slots, which hold "
        "their initial value for keys that they have not been saved for, as do other slots, and "
        "those that the checkpoint has nothing of and that are not required. What does not fit "
        "leaves the table as it was, on all ranks. Gives the keys, and what was recorded of them "
        "and of those that have no row: -1 where nothing was.");

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
        "The first of the named tensors that the checkpoint has, which must have the shape, or the "
        "error gives the hint; a scalar may be a vector of one. Where it has none, and none is "
        "required, an empty one.");

/// What the table is to hold, read before what it held is touched.
struct PartsToRestore {
  std::vector<std::string> parts;
  std::vector<SavedKeys> rows;  // of each part
  std::vector<int64_t> keys;    // of all parts
  std::vector<int64_t> versions, freqs;
  std::vector<int64_t> filtered_keys, filtered_versions, filtered_freqs;
};

void Append(const std::vector<int64_t>& values, std::vector<int64_t>* all) {
  all->insert(all->end(), values.begin(), values.end());
}

/// What is known of keys, of whole tables and of increments in turn.
class MergedKeys {
 public:
  explicit MergedKeys(PartsToRestore* all) : all_(*all) {
    for (size_t i = 0; i < all_.keys.size(); ++i) places_[all_.keys[i]] = i;
  }

  void Remove(const std::vector<int64_t>& keys) {
    for (const int64_t key : keys) {
      const auto found = places_.find(key);
      if (found == places_.end()) continue;
      const size_t place = found->second;
      places_.erase(found);
      for (auto* numbers : {&all_.keys, &all_.versions, &all_.freqs}) {
        (*numbers)[place] = numbers->back();
        numbers->pop_back();
      }
      if (place < all_.keys.size()) places_[all_.keys[place]] = place;
    }
  }

  /// An increment says of all keys without rows how often they came.
  void Add(const PartsToRestore& later) {
    for (size_t i = 0; i < later.keys.size(); ++i) {
      const auto [entry, is_new] = places_.emplace(later.keys[i], all_.keys.size());
      if (is_new) {
        all_.keys.push_back(later.keys[i]);
        all_.versions.push_back(later.versions[i]);
        all_.freqs.push_back(later.freqs[i]);
      } else {
        all_.versions[entry->second] = later.versions[i];
        all_.freqs[entry->second] = later.freqs[i];
      }
    }
    all_.filtered_keys = later.filtered_keys;
    all_.filtered_versions = later.filtered_versions;
    all_.filtered_freqs = later.filtered_freqs;
  }

 private:
  PartsToRestore& all_;
  std::unordered_map<int64_t, size_t> places_;
};

PartsToRestore ReadKeys(SavedBuckets& saved, const PlaneName& name, const WantedKeys& wanted) {
  PartsToRestore found;
  found.parts = saved.PartsOf(name, /*parts_first=*/wanted.num_parts > 1);
  for (const std::string& part : found.parts) {
    const SavedKeys rows = saved.Keys(name.Of(part), wanted);
    Append(rows.keys, &found.keys);
    Append(saved.Numbers(rows, "-versions"), &found.versions);
    Append(saved.Numbers(rows, "-freqs"), &found.freqs);
    const SavedKeys filtered = saved.FilteredKeys(name.Of(part), wanted);
    Append(filtered.keys, &found.filtered_keys);
    Append(saved.Numbers(filtered, "-versions"), &found.filtered_versions);
    Append(saved.Numbers(filtered, "-freqs"), &found.filtered_freqs);
    found.rows.push_back(rows);
  }
  return found;
}

class RestoreBucketsOp : public WholeTableOp {
 public:
  explicit RestoreBucketsOp(tf::OpKernelConstruction* ctx)
      : WholeTableOp(ctx),
        slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
        slot_is_required_(Attribute<std::vector<bool>>(ctx, "slot_is_required")),
        num_buckets_(Attribute<int64_t>(ctx, "num_buckets")),
        num_parts_(Attribute<int64_t>(ctx, "num_parts")),
        part_(Attribute<int64_t>(ctx, "part")),
        keys_(Attribute<tf::DataType>(ctx, "Tkey") == tf::DT_INT32 ? KeysOf::kInt32
                                                                   : KeysOf::kInt64) {
    const auto heads = Attribute<std::vector<std::string>>(ctx, "heads");
    const auto tails = Attribute<std::vector<std::string>>(ctx, "tails");
    OP_REQUIRES(ctx,
                heads.size() == slot_names_.size() + 1 && tails.size() == heads.size() &&
                    slot_is_required_.size() == slot_names_.size(),
                absl::InvalidArgumentError("heads and tails name the rows and each slot"));
    for (size_t i = 0; i < heads.size(); ++i) names_.push_back({heads[i], tails[i]});
  }

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankMeeting& meeting) override {
    PartsToRestore found;
    const std::vector<std::string> chain = ChainOf(ctx->input(1).scalar<tf::tstring>()());
    SavedBuckets saved(chain.front());
    meeting.Begin();
    meeting.AwaitTurn();
    const auto fill = [&](const TableView& view, const TableView& fresh) {
      meeting.GiveTurn();
      const WantedKeys wanted{num_buckets_, num_parts_, part_, view.options().placement};
      found = ReadKeys(saved, names_.front(), wanted);
      CheckKeysFit(view.options(), found.keys, keys_);
      FillRows(call, saved, found, fresh);
      FillSlots(call, saved, found, names_, wanted, fresh);
      std::string signature = SignatureOf(saved, found, names_);
      if (chain.size() > 1) {
        MergedKeys merged(&found);
        for (size_t i = 1; i < chain.size(); ++i)
          signature += AddIncrement(call, chain[i], wanted, fresh, &merged);
      }
      Give(ctx, {&found.keys, &found.versions, &found.freqs, &found.filtered_keys,
                 &found.filtered_versions, &found.filtered_freqs});
      const std::string difference = DifferenceOf(meeting.Share(signature));
      if (!difference.empty()) ThrowDifferentCheckpoints(saved.prefix(), difference);
    };
    table.Replace(call, slot_names_, fill, StreamOf(saved));
  }

 private:
  /// What later keys start by, which is the same for all parts.
  std::optional<uint64_t> StreamOf(SavedBuckets& saved) const {
    const PlaneName& name = names_.front();
    for (const std::string& part : saved.PartsOf(name, /*parts_first=*/num_parts_ > 1)) {
      if (const auto stream = saved.StreamIn(name.Of(part) + "-seed")) return stream;
    }
    return std::nullopt;
  }

  /// Whether the checkpoint has no tensor of a slot; says so.
  static bool IsMissing(SavedBuckets& saved, const PartsToRestore& found, const PlaneName& name) {
    for (const std::string& part : found.parts) {
      const std::string plane = name.Of(part);
      if (saved.Contains(plane + "-keys") || saved.Contains(plane + "-values")) return false;
    }
    LOG(WARNING) << "the checkpoint " << saved.prefix() << " has nothing of the slot "
                 << name.Of(found.parts.front()) << ": it has its initial value";
    return true;
  }

  /// Brings the table to what it was when an increment was saved; gives its signature.
  std::string AddIncrement(OpCall& call, const std::string& prefix, const WantedKeys& wanted,
                           const TableView& fresh, MergedKeys* merged) const {
    SavedBuckets saved(prefix);
    std::vector<PlaneName> names = names_;
    for (PlaneName& name : names) name.tail += kIncrementEnding;
    const PartsToRestore found = ReadKeys(saved, names.front(), wanted);
    CheckKeysFit(fresh.options(), found.keys, keys_);
    const std::vector<int64_t> gone = GoneKeys(saved, names.front(), found, wanted);
    const auto num_gone = static_cast<int64_t>(gone.size());
    fresh.table.Erase(call, num_gone, call.OnDevice(gone.data(), num_gone));
    merged->Remove(gone);
    FillRows(call, saved, found, fresh);
    FillSlots(call, saved, found, names, wanted, fresh);
    merged->Add(found);
    return SignatureOf(saved, found, names);
  }

  static std::vector<int64_t> GoneKeys(SavedBuckets& saved, const PlaneName& name,
                                       const PartsToRestore& found, const WantedKeys& wanted) {
    std::vector<int64_t> gone;
    for (const std::string& part : found.parts) {
      const tf::Tensor keys = saved.Read(name.Of(part) + kGoneOfBuckets, tf::DT_INT64);
      const auto* all = Data<int64_t>(keys);
      std::copy_if(all, all + keys.NumElements(), std::back_inserter(gone),
                   [&](int64_t key) { return wanted.Has(key); });
    }
    return gone;
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

  static std::string SignatureOf(SavedBuckets& saved, const PartsToRestore& found,
                                 const std::vector<PlaneName>& names) {
    std::string text;
    for (const std::string& part : found.parts) {
      for (const char* tensor : {"-keys", "-values"}) {
        const std::string name = names.front().Of(part) + tensor;
        if (saved.Contains(name)) text += saved.SignatureOf(name);
      }
    }
    return text;
  }

  static void FillRows(OpCall& call, SavedBuckets& saved, const PartsToRestore& found,
                       const TableView& fresh) {
    const int64_t dim = fresh.options().dim;
    const auto num_keys = static_cast<int64_t>(found.keys.size());
    const int64_t num_before = fresh.table.Size(call).num_keys;
    TableFiller filler(call, fresh, num_before + num_keys, num_keys);
    RowMover mover(call, *fresh.planes.rows, num_keys);
    for (const SavedKeys& rows : found.rows) {
      if (rows.keys.empty()) continue;
      saved.ForEachChunk(rows, dim, [&](int64_t count, const int64_t* keys, const float* values) {
        const int64_t* row_ids = filler.Insert(count, keys, values);
        if (num_before > 0) mover.FromHost(count, row_ids, values);
      });
    }
  }

  static void FillSlot(OpCall& call, SavedBuckets& saved, const PartsToRestore& found,
                       const PlaneName& name, const WantedKeys& wanted, const TableView& fresh,
                       Plane& plane) {
    SlotFiller filler(call, fresh, plane, RowsOfPart(plane.width()));
    for (size_t i = 0; i < found.parts.size(); ++i) {
      if (found.rows[i].keys.empty()) continue;  // the slot may not be there
      const SavedKeys rows = saved.Keys(name.Of(found.parts[i]), wanted);
      if (rows.keys.empty()) continue;
      saved.ForEachChunk(rows, plane.width(),
                         [&](int64_t count, const int64_t* keys, float* values) {
                           filler.Write(count, keys, values);
                         });
    }
  }

  static void Give(tf::OpKernelContext* ctx,
                   const std::vector<const std::vector<int64_t>*>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      tf::Tensor& output =
          Output(ctx, static_cast<int>(i), {static_cast<int64_t>(outputs[i]->size())});
      std::copy(outputs[i]->begin(), outputs[i]->end(), Data<int64_t>(output));
    }
  }

  const std::vector<std::string> slot_names_;
  const std::vector<bool> slot_is_required_;
  const int64_t num_buckets_, num_parts_, part_;
  const KeysOf keys_;
  std::vector<PlaneName> names_;  // of the rows, then of the slots
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
      SavedBuckets saved(ctx->input(0).scalar<tf::tstring>()());
      const auto name = std::find_if(names_.begin(), names_.end(),
                                     [&](const std::string& each) { return saved.Contains(each); });
      const bool is_there = name != names_.end();
      *Data<bool>(Output(ctx, 0, {})) = is_there;
      ctx->set_output(1, is_there || is_required_ ? Read(saved, is_there ? *name : names_.front())
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
SOK_REGISTER_KERNEL(Name("SokRestoreBuckets")
                        .HostMemory("table")
                        .HostMemory("prefix")
                        .HostMemory("tickets")
                        .HostMemory("keys")
                        .HostMemory("versions")
                        .HostMemory("freqs")
                        .HostMemory("filtered_keys")
                        .HostMemory("filtered_versions")
                        .HostMemory("filtered_freqs"),
                    RestoreBucketsOp);
SOK_REGISTER_KERNEL(
    Name("SokReadSavedTensor").HostMemory("prefix").HostMemory("is_there").HostMemory("value"),
    ReadSavedTensorOp);

}  // namespace
}  // namespace sok
