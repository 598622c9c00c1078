// SPDX-License-Identifier: Apache-2.0
// Keys -> row ids: the hash index itself, about one cache line per key. No rows, no locks.
#pragma once

#include <cstdint>

#include "ops/base/memory/reserved_memory.h"
#include "ops/base/threads/executor.h"

namespace sok {

/// Any int64 is a valid key. Const calls may run concurrently; others need exclusive access.
///
/// A bucket is one cache line with five keys. A key lives in its home bucket or, if that was full,
/// in the next one that was not. Each bucket counts the keys that passed it, so that a search for a
/// missing key ends at the first bucket that none passed, and erasing needs no tombstones. Home
/// buckets ascend with the hash, whatever their number. The index can therefore grow in place, from
/// its end to its start, and threads that change disjoint ranges of buckets work on disjoint ranges
/// of hashes.
class KeyIndex {
 public:
  KeyIndex();

  int64_t size() const { return size_; }
  int64_t num_bytes() const { return num_buckets_ * static_cast<int64_t>(sizeof(Bucket)); }

  /// row_ids[i] = the row of keys[i], or kNoRow. Returns the number of kNoRow.
  int64_t Find(int64_t num_keys,
               const int64_t* keys,      // [num_keys]
               int64_t* row_ids) const;  // [num_keys]

  /// Makes room for `num_keys` keys in all; until then Insert does not allocate. Throws
  /// kOutOfMemory and leaves the index as it was.
  void Reserve(Executor& executor, int64_t num_keys);

  /// Adds distinct keys that the index does not hold. Throws kOutOfMemory without effect on the
  /// contents.
  void Insert(Executor& executor, int64_t num_keys,
              const int64_t* keys,      // [num_keys]
              const int64_t* row_ids);  // [num_keys], in [0, kMaxRows)

  /// Adds keys to an index from which nothing was ever erased: keys[i] gets the row first_row + i.
  /// Skips keys that are repeated or that the index holds, and returns their number. Throws as
  /// Insert. Fast if there are about as many keys as buckets, as it passes over the buckets in
  /// order.
  int64_t Append(Executor& executor, int64_t num_keys, const int64_t* keys, int64_t first_row);

  /// Removes `key` and returns its row, or kNoRow if the index does not hold it.
  int64_t Erase(int64_t key);

  /// Calls visit(key, row_id) for all keys in buckets [begin, end), in no particular order.
  template <typename Visit>
  void ForEachIn(int64_t begin, int64_t end, Visit visit) const {
    for (const Bucket* bucket = buckets() + begin; bucket != buckets() + end; ++bucket) {
      for (uint32_t slot = 0; slot < bucket->count(); ++slot) {
        visit(bucket->keys[slot], bucket->row_ids[slot]);
      }
    }
  }

  void Clear();

  /// The bucket where the search for `key` starts; tests use it to make collisions.
  int64_t HomeBucket(int64_t key) const;
  int64_t num_buckets() const { return num_buckets_; }

 private:
  static constexpr uint32_t kSlots = 5;

  struct alignas(64) Bucket {
    int64_t keys[kSlots];
    uint32_t row_ids[kSlots];
    // The low three bits: number of keys in this bucket. Above: number of keys that passed it; 2^29
    // of those would take 2^57 steps to insert, so the field cannot overflow.
    uint32_t state;

    uint32_t count() const { return state & 7; }
    bool is_full() const { return count() == kSlots; }
    bool was_passed() const { return state >= 8; }
    /// The slot that holds `key`, or kSlots.
    uint32_t SlotOf(int64_t key) const;
  };
  static_assert(sizeof(Bucket) == 64, "a bucket is one cache line");

  Bucket* buckets() const { return static_cast<Bucket*>(memory_.data()); }
  int64_t Next(int64_t bucket) const { return bucket + 1 == num_buckets_ ? 0 : bucket + 1; }
  int64_t FindAt(int64_t home, int64_t key) const;
  int64_t FindPast(int64_t home, int64_t key) const;
  void InsertAt(int64_t home, int64_t key, uint32_t row_id);

  struct Range {  // of buckets
    int64_t begin;
    int64_t end;
  };
  class DeferredInserts;
  class PartitionedKeys;
  enum class Outcome { kInserted, kPresent, kDeferred };
  template <bool kLooks>
  Outcome InsertWithin(const Range& range, int64_t home, int64_t key, uint32_t row_id);
  template <bool kLooks>
  int64_t InsertDeferred(const DeferredInserts& deferred);
  void InsertInParallel(Executor& executor, int64_t num_parts, int64_t num_keys,
                        const int64_t* keys, const int64_t* row_ids);
  void InsertPart(const Range& range, int64_t num_keys, const int64_t* keys, const int64_t* row_ids,
                  DeferredInserts& deferred);
  int64_t AppendPartitions(const PartitionedKeys& sorted, int64_t begin, int64_t end,
                           DeferredInserts& deferred);
  void GrowTo(Executor& executor, int64_t num_buckets);
  int64_t MoveInParallel(Executor& executor, int64_t num_old_buckets, DeferredInserts& deferred);
  void Move(const Range& old_buckets, const Range& target, DeferredInserts& deferred);

  const uint64_t secret_;
  ReservedMemory memory_;
  int64_t num_buckets_ = 0;
  int64_t size_ = 0;
};

}  // namespace sok
