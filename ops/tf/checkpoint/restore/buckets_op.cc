// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/restore/buckets_op.h"

#include <algorithm>
#include <iterator>

#include "tensorflow/core/platform/logging.h"

namespace sok {

namespace tf = tensorflow;

namespace {

void Append(SavedBuckets& saved, const SavedKeys& keys, SavedHistory* all) {
  all->keys.insert(all->keys.end(), keys.keys.begin(), keys.keys.end());
  const size_t first = all->seen.size();
  all->seen.resize(all->keys.size());
  for (const KeyNumber& number : kKeyNumbers) {
    KeySeen* next = all->seen.data() + first;
    for (const int64_t each : saved.Numbers(keys, number.name)) (next++)->*number.field = each;
  }
}

}  // namespace

MergedKeys::MergedKeys(PartsToRestore* all) : all_(*all) {
  for (size_t i = 0; i < all_.held.keys.size(); ++i) places_[all_.held.keys[i]] = i;
}

void MergedKeys::Remove(const std::vector<int64_t>& keys) {
  for (const int64_t key : keys) {
    const auto found = places_.find(key);
    if (found == places_.end()) continue;
    const size_t place = found->second;
    places_.erase(found);
    SavedHistory& held = all_.held;
    held.keys[place] = held.keys.back();
    held.seen[place] = held.seen.back();
    held.keys.pop_back();
    held.seen.pop_back();
    if (place < held.keys.size()) places_[held.keys[place]] = place;
  }
}

void MergedKeys::Add(const PartsToRestore& later) {
  SavedHistory& held = all_.held;
  for (size_t i = 0; i < later.held.keys.size(); ++i) {
    const auto [entry, is_new] = places_.emplace(later.held.keys[i], held.keys.size());
    if (is_new) {
      held.keys.push_back(later.held.keys[i]);
      held.seen.push_back(later.held.seen[i]);
    } else {
      held.seen[entry->second] = later.held.seen[i];
    }
  }
  all_.waiting = later.waiting;
}

BucketsOp::BucketsOp(tf::OpKernelConstruction* ctx)
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
              absl::InvalidArgumentError(
                  "heads and tails must have one value more than slot_names, for the rows, and "
                  "slot_is_required must have as many as slot_names"));
  for (size_t i = 0; i < heads.size(); ++i) names_.push_back({heads[i], tails[i]});
}

std::vector<PlaneName> BucketsOp::NamesOfIncrement() const {
  std::vector<PlaneName> names = names_;
  for (PlaneName& name : names) name.tail += kIncrementEnding;
  return names;
}

PartsToRestore BucketsOp::ReadKeys(SavedBuckets& saved, const PlaneName& name,
                                   const WantedKeys& wanted) {
  PartsToRestore found;
  found.parts = saved.PartsOf(name, /*parts_first=*/wanted.num_parts > 1);
  for (const std::string& part : found.parts) {
    const SavedKeys rows = saved.Keys(name.Of(part), wanted);
    Append(saved, rows, &found.held);
    Append(saved, saved.FilteredKeys(name.Of(part), wanted), &found.waiting);
    found.rows.push_back(rows);
  }
  return found;
}

std::vector<int64_t> BucketsOp::GoneKeys(SavedBuckets& saved, const PlaneName& name,
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

std::optional<uint64_t> BucketsOp::StreamOf(SavedBuckets& saved) const {
  const PlaneName& name = names_.front();
  for (const std::string& part : saved.PartsOf(name, /*parts_first=*/num_parts_ > 1)) {
    if (const auto stream = saved.StreamIn(name.Of(part) + kSeedOfBuckets)) return stream;
  }
  return std::nullopt;
}

bool BucketsOp::IsMissing(SavedBuckets& saved, const PartsToRestore& found, const PlaneName& name) {
  for (const std::string& part : found.parts) {
    const std::string plane = name.Of(part);
    if (saved.Contains(plane + "-keys") || saved.Contains(plane + "-values")) return false;
  }
  LOG(WARNING) << "the checkpoint " << saved.prefix() << " has no slot "
               << name.Of(found.parts.front()) << ": the slot keeps its initial value";
  return true;
}

void BucketsOp::ForEachRowOfSlot(SavedBuckets& saved, const PartsToRestore& found,
                                 const PlaneName& name, const WantedKeys& wanted, int64_t width,
                                 const UseRows& use) {
  for (size_t i = 0; i < found.parts.size(); ++i) {
    if (found.rows[i].keys.empty()) continue;  // the slot may be missing
    saved.ForEachChunk(saved.Keys(name.Of(found.parts[i]), wanted), width, use);
  }
}

std::string BucketsOp::SignatureOf(SavedBuckets& saved, const PartsToRestore& found,
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

}  // namespace sok
