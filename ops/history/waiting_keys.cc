// SPDX-License-Identifier: Apache-2.0
#include "ops/history/waiting_keys.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/base/hash.h"
#include "ops/engine/table_options.h"

namespace sok {
namespace {

class ExactCounts : public WaitingKeys {
 public:
  void Find(int64_t num_keys, const int64_t* keys, KeySeen* seen) const override {
    std::vector<int64_t> places(static_cast<size_t>(num_keys));
    index_.Find(num_keys, keys, places.data());
    for (size_t i = 0; i < places.size(); ++i) {
      seen[i] = places[i] == kNoRow ? KeySeen() : entries_[static_cast<size_t>(places[i])].seen;
    }
  }

  void Reserve(Executor& executor, int64_t num_keys) override {
    index_.Reserve(executor, index_.size() + num_keys);
    const auto most = entries_.size() + static_cast<size_t>(num_keys);
    if (most > entries_.capacity()) entries_.reserve(std::max(most, 2 * entries_.capacity()));
    if (most > free_places_.capacity()) {  // in case all of them are erased
      free_places_.reserve(std::max(most, 2 * free_places_.capacity()));
    }
  }

  void Put(Executor& executor, int64_t num_keys, const int64_t* keys,
           const KeySeen* seen) override {
    std::vector<int64_t> places(static_cast<size_t>(num_keys));
    index_.Find(num_keys, keys, places.data());
    std::vector<int64_t> fresh_keys, fresh_places;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] == kNoRow) {
        places[i] = NextPlace();
        fresh_keys.push_back(keys[i]);
        fresh_places.push_back(places[i]);
      }
      entries_[static_cast<size_t>(places[i])] = {keys[i], seen[i]};
    }
    index_.Insert(executor, static_cast<int64_t>(fresh_keys.size()), fresh_keys.data(),
                  fresh_places.data());
  }

  void Admit(int64_t key, int64_t) override { Erase(key); }

  void Erase(int64_t key) override {
    const int64_t place = index_.Erase(key);
    if (place == kNoRow) return;
    entries_[static_cast<size_t>(place)].seen.count = kFree;
    free_places_.push_back(static_cast<uint32_t>(place));
  }

  int64_t num_keys() const override { return index_.size(); }
  int64_t num_places() const override { return static_cast<int64_t>(entries_.size()); }

  void Export(int64_t begin, int64_t end, std::vector<int64_t>* keys,
              std::vector<KeySeen>* seen) const override {
    for (int64_t place = begin; place < end; ++place) {
      const Entry& entry = entries_[static_cast<size_t>(place)];
      if (entry.seen.count == kFree) continue;
      keys->push_back(entry.key);
      seen->push_back(entry.seen);
    }
  }

  int64_t num_bytes() const override {
    return index_.num_bytes() + static_cast<int64_t>(entries_.capacity() * sizeof(Entry) +
                                                     free_places_.capacity() * sizeof(uint32_t));
  }

 private:
  static constexpr int64_t kFree = INT64_MIN;  // the count at an unused position
  struct Entry {
    int64_t key = 0;
    KeySeen seen;
  };

  int64_t NextPlace() {
    if (free_places_.empty()) {
      entries_.emplace_back();
      return static_cast<int64_t>(entries_.size()) - 1;
    }
    const int64_t place = free_places_.back();
    free_places_.pop_back();
    return place;
  }

  KeyIndex index_;  // key -> position in entries_
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_places_;
};

/// A counting Bloom filter.
class BloomFilter {
 public:
  explicit BloomFilter(const BloomOptions& options)
      : options_(options),
        memory_(static_cast<size_t>(options.num_counters * options.counter_bytes),
                PageSize::kSmall) {}

  int64_t CountOf(int64_t key) const {
    int64_t least = std::numeric_limits<int64_t>::max();
    ForEachCounter(key, [&](char* counter) { least = std::min(least, Load(counter)); });
    return least;
  }

  /// Raises only counters below the count, so that keys which share a counter do not add up.
  void Raise(int64_t key, int64_t count) {
    ForEachCounter(key, [&](char* counter) {
      if (Load(counter) < count) Store(count, counter);
    });
  }

  int64_t num_bytes() const { return static_cast<int64_t>(memory_.size_bytes()); }

 private:
  template <typename Use>
  void ForEachCounter(int64_t key, const Use& use) const {
    uint64_t hash = HashKey(key);
    for (int64_t i = 0; i < options_.num_hashes; ++i) {
      hash = MixBits(hash + 0x9e3779b97f4a7c15u);
      use(static_cast<char*>(memory_.data()) +
          ScaleHash(hash, options_.num_counters) * options_.counter_bytes);
    }
  }
  // Loads the low bytes: little-endian.
  int64_t Load(const char* counter) const {
    int64_t value = 0;
    std::memcpy(&value, counter, static_cast<size_t>(options_.counter_bytes));
    return value;
  }
  void Store(int64_t value, char* counter) const {
    std::memcpy(counter, &value, static_cast<size_t>(options_.counter_bytes));
  }

  const BloomOptions options_;
  ReservedMemory memory_;
};

/// A filter for many keys is sparse at first: each key touches a page for each of its hashes. Exact
/// counts take less until they have grown to the filter's size, and then it takes them over.
class BoundedCounts : public WaitingKeys {
 public:
  explicit BoundedCounts(const BloomOptions& options)
      : options_(options), most_(options.most_count()), exact_(MakeExactCounts()) {}

  void Find(int64_t num_keys, const int64_t* keys, KeySeen* seen) const override {
    if (exact_) exact_->Find(num_keys, keys, seen);
    for (int64_t i = 0; i < num_keys; ++i) {
      if (!exact_) seen[i] = {filter_->CountOf(keys[i])};
      seen[i].step = -1;
    }
  }

  void Reserve(Executor& executor, int64_t num_keys) override {
    if (!exact_) return;
    exact_->Reserve(executor, num_keys);
    if (exact_->num_bytes() <= options_.num_counters * options_.counter_bytes) return;
    auto filter = std::make_unique<BloomFilter>(options_);
    std::vector<int64_t> keys;
    std::vector<KeySeen> seen;
    exact_->Export(0, exact_->num_places(), &keys, &seen);
    for (size_t i = 0; i < keys.size(); ++i) filter->Raise(keys[i], seen[i].count);
    filter_ = std::move(filter);
    exact_.reset();
  }

  void Put(Executor& executor, int64_t num_keys, const int64_t* keys,
           const KeySeen* seen) override {
    std::vector<KeySeen> raised(static_cast<size_t>(num_keys));
    if (exact_) exact_->Find(num_keys, keys, raised.data());
    for (size_t i = 0; i < raised.size(); ++i) {
      raised[i].count = std::max(raised[i].count, std::min(seen[i].count, most_));
      if (filter_) filter_->Raise(keys[i], raised[i].count);
    }
    if (exact_) exact_->Put(executor, num_keys, keys, raised.data());  // with their steps
  }

  /// Keeps the filter's frequency, for the time when the key loses its row, and no more: the real
  /// count depends on which of a step's lookups counted first.
  void Admit(int64_t key, int64_t filter_freq) override {
    const KeySeen enough{filter_freq, -1};
    Put(SerialExecutor(), 1, &key, &enough);
    if (!exact_) return;
    KeySeen seen;
    exact_->Find(1, &key, &seen);
    num_admitted_ += seen.step != kAdmitted;
    seen.step = kAdmitted;
    exact_->Put(SerialExecutor(), 1, &key, &seen);
  }

  void Erase(int64_t) override {}
  int64_t num_keys() const override { return exact_ ? exact_->num_keys() - num_admitted_ : 0; }
  int64_t num_places() const override { return exact_ ? exact_->num_places() : 0; }
  void Export(int64_t begin, int64_t end, std::vector<int64_t>* keys,
              std::vector<KeySeen>* seen) const override {
    if (!exact_) return;
    std::vector<int64_t> all_keys;
    std::vector<KeySeen> all;
    exact_->Export(begin, end, &all_keys, &all);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].step == kAdmitted) continue;
      keys->push_back(all_keys[i]);
      seen->push_back(all[i]);
    }
  }
  int64_t num_bytes() const override { return exact_ ? exact_->num_bytes() : filter_->num_bytes(); }

 private:
  static constexpr int64_t kAdmitted = INT64_MIN;  // the step in exact_ of a key that got a row

  const BloomOptions options_;
  const int64_t most_;                  // that a counter holds
  int64_t num_admitted_ = 0;            // in exact_
  std::unique_ptr<WaitingKeys> exact_;  // or filter_; the other is null
  std::unique_ptr<BloomFilter> filter_;
};

}  // namespace

std::unique_ptr<WaitingKeys> MakeExactCounts() { return std::make_unique<ExactCounts>(); }

std::unique_ptr<WaitingKeys> MakeBloomCounts(const BloomOptions& options) {
  return std::make_unique<BoundedCounts>(options);
}

}  // namespace sok
