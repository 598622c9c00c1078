// SPDX-License-Identifier: Apache-2.0
// The hash index. See key_index.h for its layout.
#include "ops/engine/key_index.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "ops/base/hash.h"
#include "ops/base/hash_secret.h"
#include "ops/base/prefetch.h"
#include "ops/engine/table_options.h"

namespace sok {
namespace {

constexpr int64_t kMinBuckets = 64;
// Keys per slot, in percent. Fuller tables send many more keys past their home bucket.
constexpr int64_t kMaxLoadPercent = 80;
constexpr int64_t kGrowthPercent = 150;
constexpr int kAhead = 32;                  // prefetch distance, in keys
constexpr int64_t kInsertNanoseconds = 20;  // per key in a large index, one thread
constexpr int64_t kMinKeysPerPart = 4096;   // fewer are not worth another thread
// Each inserting thread scans all keys for those of its buckets.
constexpr int64_t kMaxInsertParts = 8;
constexpr int kAppendAhead = 16;          // as kAhead, for neighbouring buckets
constexpr int kMinPartitionBits = 14;     // 2^14 buckets have the size of a core's L2 cache
constexpr int64_t kMaxPartitions = 1024;  // this many write positions fit into caches

int64_t NumParts(Executor& executor, int64_t num_keys) {
  return std::min<int64_t>({executor.num_threads(), kMaxInsertParts, num_keys / kMinKeysPerPart});
}

}  // namespace

/// Keys that a thread could not insert because their bucket is another thread's or not free yet.
/// They are few, but nothing may fail once the first key has moved, so there is address space for
/// all.
class KeyIndex::DeferredInserts {
 public:
  struct Entry {
    int64_t key;
    uint32_t row_id;
  };

  explicit DeferredInserts(int64_t most)
      : memory_(static_cast<size_t>(most) * sizeof(Entry), PageSize::kSmall) {}

  /// Thread-safe.
  void Add(int64_t key, uint32_t row_id) {
    entries()[size_.fetch_add(1, std::memory_order_relaxed)] = {key, row_id};
  }
  const Entry* begin() const { return entries(); }
  const Entry* end() const { return entries() + size_; }

 private:
  Entry* entries() const { return static_cast<Entry*>(memory_.data()); }

  const ReservedMemory memory_;
  std::atomic<int64_t> size_{0};
};

KeyIndex::KeyIndex() : secret_(HashSecret()) { Clear(); }

uint32_t KeyIndex::Bucket::SlotOf(int64_t key) const {
  uint32_t matches = 0;  // without branches: the slot cannot be predicted
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    matches |= static_cast<uint32_t>(keys[slot] == key) << slot;
  }
  matches &= (1u << count()) - 1;
  return matches == 0 ? kSlots : static_cast<uint32_t>(__builtin_ctz(matches));
}

int64_t KeyIndex::HomeBucket(int64_t key) const {
  return ScaleHash(HashKey(key, secret_), num_buckets_);
}

int64_t KeyIndex::Find(int64_t num_keys, const int64_t* keys, int64_t* row_ids) const {
  int64_t num_missing = 0;
  int64_t homes[kAhead];  // a ring buffer
  const auto ask_for_home = [&](int64_t i) {
    int64_t& home = homes[static_cast<uint64_t>(i) % kAhead];
    home = HomeBucket(keys[i]);
    PrefetchForRead(buckets() + home);
  };
  for (int64_t i = 0; i < std::min<int64_t>(kAhead, num_keys); ++i) ask_for_home(i);
  for (int64_t i = 0; i < num_keys; ++i) {
    const int64_t key = keys[i];
    const int64_t home = homes[static_cast<uint64_t>(i) % kAhead];
    if (i + kAhead < num_keys) ask_for_home(i + kAhead);
    const int64_t row_id = FindAt(home, key);
    row_ids[i] = row_id;
    num_missing += row_id == kNoRow;
  }
  return num_missing;
}

int64_t KeyIndex::FindAt(int64_t home, int64_t key) const {
  const Bucket& bucket = buckets()[home];
  const uint32_t slot = bucket.SlotOf(key);
  if (slot < kSlots) return bucket.row_ids[slot];
  return bucket.was_passed() ? FindPast(home, key) : kNoRow;
}

int64_t KeyIndex::FindPast(int64_t home, int64_t key) const {
  // After many erasures every bucket may count passed keys, so a full round ends the search, too.
  for (int64_t bucket = Next(home); bucket != home; bucket = Next(bucket)) {
    const uint32_t slot = buckets()[bucket].SlotOf(key);
    if (slot < kSlots) return buckets()[bucket].row_ids[slot];
    if (!buckets()[bucket].was_passed()) break;
  }
  return kNoRow;
}

void KeyIndex::InsertAt(int64_t home, int64_t key, uint32_t row_id) {
  int64_t bucket = home;
  while (buckets()[bucket].is_full()) {
    buckets()[bucket].state += 8;
    bucket = Next(bucket);
  }
  Bucket& place = buckets()[bucket];
  place.keys[place.count()] = key;
  place.row_ids[place.count()] = row_id;
  ++place.state;
}

/// Inserts without touching a bucket outside `range`; returns kDeferred, without effect, if that is
/// impossible. With kChecksPresence, looks for the key on the way, which suffices if no key was
/// ever erased: then only full buckets have been passed.
template <bool kChecksPresence>
KeyIndex::Outcome KeyIndex::InsertWithin(const Range& range, int64_t home, int64_t key,
                                         uint32_t row_id) {
  if (home < range.begin || home >= range.end) return Outcome::kDeferred;
  for (int64_t bucket = home; bucket < range.end; ++bucket) {
    if (kChecksPresence && buckets()[bucket].SlotOf(key) < kSlots) return Outcome::kPresent;
    if (buckets()[bucket].is_full()) continue;
    InsertAt(home, key, row_id);
    return Outcome::kInserted;
  }
  return Outcome::kDeferred;
}

/// Returns how many of the keys the index had, with kChecksPresence.
template <bool kChecksPresence>
int64_t KeyIndex::InsertDeferred(const DeferredInserts& deferred) {
  int64_t num_present = 0;
  for (const auto& entry : deferred) {
    const int64_t home = HomeBucket(entry.key);
    if (kChecksPresence && FindAt(home, entry.key) != kNoRow) {
      ++num_present;
    } else {
      InsertAt(home, entry.key, entry.row_id);
    }
  }
  return num_present;
}

void KeyIndex::Insert(Executor& executor, int64_t num_keys, const int64_t* keys,
                      const int64_t* row_ids) {
  Reserve(executor, size_ + num_keys);
  const int64_t num_parts = NumParts(executor, num_keys);
  if (num_parts > 1) {
    InsertInParallel(executor, num_parts, num_keys, keys, row_ids);
  } else {
    for (int64_t begin = 0; begin < num_keys; begin += kAhead) {
      const int64_t count = std::min<int64_t>(kAhead, num_keys - begin);
      int64_t homes[kAhead];
      for (int64_t i = 0; i < count; ++i) {
        homes[i] = HomeBucket(keys[begin + i]);
        PrefetchForWrite(buckets() + homes[i]);
      }
      for (int64_t i = 0; i < count; ++i) {
        InsertAt(homes[i], keys[begin + i], static_cast<uint32_t>(row_ids[begin + i]));
      }
    }
  }
  size_ += num_keys;
}

/// Each thread fills one part of the buckets.
void KeyIndex::InsertInParallel(Executor& executor, int64_t num_parts, int64_t num_keys,
                                const int64_t* keys, const int64_t* row_ids) {
  DeferredInserts deferred(num_keys);
  const auto part_begin = [&](int64_t part) { return num_buckets_ * part / num_parts; };
  executor.ParallelFor(num_parts, num_keys / num_parts * kInsertNanoseconds,
                       [&](int64_t begin, int64_t end) {
                         const Range range{part_begin(begin), part_begin(end)};
                         InsertPart(range, num_keys, keys, row_ids, deferred);
                       });
  InsertDeferred</*kChecksPresence=*/false>(deferred);
}

/// Inserts the keys whose home is in `range`.
void KeyIndex::InsertPart(const Range& range, int64_t num_keys, const int64_t* keys,
                          const int64_t* row_ids, DeferredInserts& deferred) {
  struct PendingInsert {
    int64_t home;
    int64_t position;
  };
  PendingInsert pending[kAhead];
  int num_pending = 0;
  const auto insert_pending = [&] {
    for (int i = 0; i < num_pending; ++i) {
      const int64_t key = keys[pending[i].position];
      const auto row_id = static_cast<uint32_t>(row_ids[pending[i].position]);
      const Outcome outcome =
          InsertWithin</*kChecksPresence=*/false>(range, pending[i].home, key, row_id);
      if (outcome == Outcome::kDeferred) deferred.Add(key, row_id);
    }
    num_pending = 0;
  };
  for (int64_t i = 0; i < num_keys; ++i) {
    const int64_t home = HomeBucket(keys[i]);
    if (home < range.begin || home >= range.end) continue;
    PrefetchForWrite(buckets() + home);
    pending[num_pending++] = {home, i};
    if (num_pending == kAhead) insert_pending();
  }
  insert_pending();
}

/// Keys partitioned by ranges of buckets, so that successive inserts touch neighbouring memory.
class KeyIndex::PartitionedKeys {
 public:
  struct Entry {
    int64_t key;
    uint32_t home;  // kMaxRows keys have fewer buckets than 2^32
    uint32_t row_id;
  };

  PartitionedKeys(const KeyIndex& index, int64_t num_keys, const int64_t* keys, int64_t first_row)
      : index_(index),
        memory_(static_cast<size_t>(num_keys) * sizeof(Entry), PageSize::kHuge),
        bits_(BitsFor(index.num_buckets())),
        ends_(static_cast<size_t>(PartitionOf(index.num_buckets() - 1) + 1)) {
    for (int64_t i = 0; i < num_keys; ++i) ++End(index.HomeBucket(keys[i]));
    int64_t begin = 0;
    for (int64_t& end : ends_) begin += std::exchange(end, begin);
    auto* const entries = static_cast<Entry*>(memory_.data());
    for (int64_t i = 0; i < num_keys; ++i) {
      const int64_t home = index.HomeBucket(keys[i]);
      entries[End(home)++] = {keys[i], static_cast<uint32_t>(home),
                              static_cast<uint32_t>(first_row + i)};
    }
  }

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  /// The buckets of partitions [begin, end).
  Range Buckets(int64_t begin, int64_t end) const {
    return {begin << bits_, std::min(end << bits_, index_.num_buckets())};
  }
  const Entry* Begin(int64_t partition) const {
    const auto* const entries = static_cast<const Entry*>(memory_.data());
    return partition == 0 ? entries : entries + ends_[static_cast<size_t>(partition - 1)];
  }

 private:
  static int BitsFor(int64_t num_buckets) {
    int bits = kMinPartitionBits;
    while ((num_buckets - 1) >> bits >= kMaxPartitions) ++bits;
    return bits;
  }
  int64_t PartitionOf(int64_t home) const { return home >> bits_; }
  int64_t& End(int64_t home) { return ends_[static_cast<size_t>(PartitionOf(home))]; }

  const KeyIndex& index_;
  const ReservedMemory memory_;
  const int bits_;             // log2 of the buckets of a partition
  std::vector<int64_t> ends_;  // end of each partition's entries
};

int64_t KeyIndex::Append(Executor& executor, int64_t num_keys, const int64_t* keys,
                         int64_t first_row) {
  if (num_keys == 0) return 0;
  Reserve(executor, size_ + num_keys);
  const PartitionedKeys sorted(*this, num_keys, keys, first_row);
  DeferredInserts deferred(num_keys);
  std::atomic<int64_t> num_present{0};
  executor.ParallelFor(sorted.size(), num_keys / sorted.size() * kInsertNanoseconds,
                       [&](int64_t begin, int64_t end) {
                         num_present += AppendPartitions(sorted, begin, end, deferred);
                       });
  num_present += InsertDeferred</*kChecksPresence=*/true>(deferred);
  size_ += num_keys - num_present;
  return num_present;
}

/// Inserts the keys of partitions [begin, end). Returns how many the index had.
int64_t KeyIndex::AppendPartitions(const PartitionedKeys& sorted, int64_t begin, int64_t end,
                                   DeferredInserts& deferred) {
  const Range range = sorted.Buckets(begin, end);
  const PartitionedKeys::Entry* const last = sorted.Begin(end);
  int64_t num_present = 0;
  for (const auto* entry = sorted.Begin(begin); entry != last; ++entry) {
    if (last - entry > kAppendAhead) PrefetchForWrite(buckets() + entry[kAppendAhead].home);
    const Outcome outcome =
        InsertWithin</*kChecksPresence=*/true>(range, entry->home, entry->key, entry->row_id);
    if (outcome == Outcome::kDeferred) deferred.Add(entry->key, entry->row_id);
    num_present += outcome == Outcome::kPresent;
  }
  return num_present;
}

int64_t KeyIndex::Erase(int64_t key) {
  const int64_t home = HomeBucket(key);
  int64_t place = home;
  uint32_t slot = buckets()[place].SlotOf(key);
  while (slot == kSlots) {
    if (!buckets()[place].was_passed()) return kNoRow;
    place = Next(place);
    if (place == home) return kNoRow;
    slot = buckets()[place].SlotOf(key);
  }
  for (int64_t passed = home; passed != place; passed = Next(passed)) buckets()[passed].state -= 8;
  Bucket& bucket = buckets()[place];
  const uint32_t row_id = bucket.row_ids[slot];
  const uint32_t last = bucket.count() - 1;
  bucket.keys[slot] = bucket.keys[last];
  bucket.row_ids[slot] = bucket.row_ids[last];
  --bucket.state;
  --size_;
  return row_id;
}

void KeyIndex::Reserve(Executor& executor, int64_t num_keys) {
  const int64_t needed = num_keys * 100 / (kMaxLoadPercent * kSlots) + 1;
  if (needed <= num_buckets_) return;
  GrowTo(executor, std::max(needed, num_buckets_ * kGrowthPercent / 100));
}

void KeyIndex::GrowTo(Executor& executor, int64_t num_buckets) {
  DeferredInserts deferred(size_);
  memory_.Grow(static_cast<size_t>(num_buckets) * sizeof(Bucket));
  const int64_t num_old_buckets = std::exchange(num_buckets_, num_buckets);
  const int64_t num_unmoved = MoveInParallel(executor, num_old_buckets, deferred);
  Move({0, num_unmoved}, {0, num_buckets}, deferred);
  InsertDeferred</*kChecksPresence=*/false>(deferred);
}

/// Moves old buckets from the end of the index in rounds, as long as a round has enough buckets
/// whose keys all land behind the last unmoved bucket. Returns the number of unmoved buckets.
int64_t KeyIndex::MoveInParallel(Executor& executor, int64_t num_old_buckets,
                                 DeferredInserts& deferred) {
  const int64_t num_parts = executor.num_threads();
  const auto target = [&](int64_t old) { return old * num_buckets_ / num_old_buckets; };
  int64_t end = num_old_buckets;
  while (num_parts > 1) {
    const int64_t begin = (end * num_old_buckets + num_buckets_ - 1) / num_buckets_;
    const int64_t count = end - begin;  // target(begin) >= end
    if (count * kSlots < num_parts * kMinKeysPerPart) break;
    const auto part_begin = [&](int64_t part) { return begin + count * part / num_parts; };
    executor.ParallelFor(num_parts, count / num_parts * kSlots * kInsertNanoseconds,
                         [&](int64_t first_part, int64_t end_part) {
                           const Range old{part_begin(first_part), part_begin(end_part)};
                           Move(old, {target(old.begin), target(old.end)}, deferred);
                         });
    end = begin;
  }
  return end;
}

/// Moves the keys of old buckets into `target`, last bucket first: a key's home only moves up, to
/// buckets that are already converted or beyond the old end.
void KeyIndex::Move(const Range& old_buckets, const Range& target, DeferredInserts& deferred) {
  for (int64_t i = old_buckets.end - 1; i >= old_buckets.begin; --i) {
    const Bucket old = std::exchange(buckets()[i], Bucket{});
    const Range free{std::max(i, target.begin), target.end};
    for (uint32_t slot = 0; slot < old.count(); ++slot) {
      const int64_t key = old.keys[slot];
      const Outcome outcome =
          InsertWithin</*kChecksPresence=*/false>(free, HomeBucket(key), key, old.row_ids[slot]);
      if (outcome == Outcome::kDeferred) deferred.Add(key, old.row_ids[slot]);
    }
  }
}

void KeyIndex::Clear() {
  memory_ = ReservedMemory(kMinBuckets * sizeof(Bucket), PageSize::kHuge);
  num_buckets_ = kMinBuckets;
  size_ = 0;
}

}  // namespace sok
