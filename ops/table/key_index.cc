// SPDX-License-Identifier: Apache-2.0
// The hash index. See key_index.h for its layout.
#include "ops/table/key_index.h"

#include <algorithm>
#include <utility>

#include "ops/base/hash.h"
#include "ops/base/prefetch.h"
#include "ops/table/table.h"

namespace sok {
namespace {

constexpr int64_t kMinBuckets = 64;
// Keys per slot, in percent. Fuller tables send many more keys past their home bucket.
constexpr int64_t kMaxLoadPercent = 80;
constexpr int64_t kGrowthPercent = 150;
constexpr int kAhead = 32;  // a bucket is asked for this many keys before it is needed

}  // namespace

KeyIndex::KeyIndex() { Clear(); }

uint32_t KeyIndex::Bucket::SlotOf(int64_t key) const {
  uint32_t matches = 0;  // compared without branches: which slot it is cannot be predicted
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    matches |= static_cast<uint32_t>(keys[slot] == key) << slot;
  }
  matches &= (1u << count()) - 1;
  return matches == 0 ? kSlots : static_cast<uint32_t>(__builtin_ctz(matches));
}

int64_t KeyIndex::HomeBucket(int64_t key) const { return ScaleHash(HashKey(key), num_buckets_); }

int64_t KeyIndex::Find(int64_t num_keys, const int64_t* keys, int64_t* row_ids) const {
  int64_t num_missing = 0;
  int64_t homes[kAhead];  // a ring
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
    const Bucket& bucket = buckets()[home];
    const uint32_t slot = bucket.SlotOf(key);
    int64_t row_id = kNoRow;
    if (slot < kSlots) {
      row_id = bucket.row_ids[slot];
    } else if (bucket.was_passed()) {
      row_id = FindPast(home, key);
    }
    row_ids[i] = row_id;
    num_missing += row_id == kNoRow;
  }
  return num_missing;
}

int64_t KeyIndex::FindPast(int64_t home, int64_t key) const {
  // Many erasures could leave every bucket passed, so going round ends the search as well.
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

void KeyIndex::Insert(int64_t num_keys, const int64_t* keys, const int64_t* row_ids) {
  Reserve(size_ + num_keys);
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
  size_ += num_keys;
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

void KeyIndex::Reserve(int64_t num_keys) {
  const int64_t needed = num_keys * 100 / (kMaxLoadPercent * kSlots) + 1;
  if (needed > num_buckets_) GrowTo(std::max(needed, num_buckets_ * kGrowthPercent / 100));
}

/// Inserts without touching a bucket below `first_bucket`; false, and nothing done, if that is
/// impossible.
bool KeyIndex::TryInsertAbove(int64_t first_bucket, int64_t key, uint32_t row_id) {
  const int64_t home = HomeBucket(key);
  if (home < first_bucket) return false;
  int64_t bucket = home;
  while (bucket < num_buckets_ && buckets()[bucket].is_full()) ++bucket;
  if (bucket == num_buckets_) return false;
  InsertAt(home, key, row_id);
  return true;
}

void KeyIndex::GrowTo(int64_t num_buckets) {
  struct Entry {
    int64_t key;
    uint32_t row_id;
  };
  // Entries that have to wait until all buckets are converted. Few, but nothing may fail once the
  // first has moved, so there is address space for all.
  const ReservedMemory waiting_memory(static_cast<size_t>(size_) * sizeof(Entry), PageSize::kSmall);
  auto* waiting = static_cast<Entry*>(waiting_memory.data());
  memory_.Grow(static_cast<size_t>(num_buckets) * sizeof(Bucket));
  const int64_t num_old_buckets = std::exchange(num_buckets_, num_buckets);
  int64_t num_waiting = 0;
  // A key's home only moves up, onto buckets that are converted or beyond the old end.
  for (int64_t i = num_old_buckets - 1; i >= 0; --i) {
    const Bucket old = std::exchange(buckets()[i], Bucket{});
    for (uint32_t slot = 0; slot < old.count(); ++slot) {
      if (!TryInsertAbove(i, old.keys[slot], old.row_ids[slot])) {
        waiting[num_waiting++] = {old.keys[slot], old.row_ids[slot]};
      }
    }
  }
  for (int64_t i = 0; i < num_waiting; ++i) {
    InsertAt(HomeBucket(waiting[i].key), waiting[i].key, waiting[i].row_id);
  }
}

void KeyIndex::Clear() {
  memory_ = ReservedMemory(kMinBuckets * sizeof(Bucket), PageSize::kHuge);
  num_buckets_ = kMinBuckets;
  size_ = 0;
}

}  // namespace sok
