// SPDX-License-Identifier: Apache-2.0
// Keys -> row ids in device memory: the layout, and one thread's work on one key. No kernels.
#pragma once

#include <cstdint>
#include <cstring>

#include "ops/base/hash.h"
#include "ops/base/host_device.h"
#include "ops/base/threads/atomics.h"

namespace sok {

/// One probe: a memory transaction of 64 bytes with five keys and their rows. A slot is free if its
/// row id is kFreeSlot, so any int64 is a valid key.
///
/// The rules are those of the CPU's KeyIndex: a key lives in its home bucket or, if that was full,
/// in the next one that was not; each bucket counts the keys that passed it, so that a search for a
/// missing key ends at the first bucket that none passed, and erasing leaves no tombstones. Unlike
/// there, used slots need not be contiguous, so erasing moves nothing.
struct alignas(64) DeviceBucket {
  static constexpr int kSlots = 5;
  static constexpr uint32_t kFreeSlot = UINT32_MAX;

  int64_t keys[kSlots];
  uint32_t row_ids[kSlots];
  uint32_t num_passed;  // keys stored further on because this bucket was full
};
static_assert(sizeof(DeviceBucket) == 64, "a bucket is one probe");

/// Loads all 64 bytes at once, so that a probe waits for memory once.
SOK_HOST_DEVICE inline DeviceBucket LoadBucket(const DeviceBucket* address) {
#ifdef __CUDA_ARCH__
  uint4 parts[4];
  SOK_UNROLL
  for (int i = 0; i < 4; ++i) parts[i] = reinterpret_cast<const uint4*>(address)[i];
  DeviceBucket bucket;
  memcpy(&bucket, parts, sizeof(bucket));
  return bucket;
#else
  return *address;
#endif
}

struct DeviceIndex {
  DeviceBucket* buckets = nullptr;
  int64_t num_buckets = 0;
  uint64_t secret = 0;  // HashSecret(), in all kernels of a table

  /// The position of a key; kNoSlot: absent.
  static constexpr int64_t kNoSlot = -1;

  SOK_HOST_DEVICE int64_t Home(int64_t key) const {
    return ScaleHash(HashKey(key, secret), num_buckets);
  }
  SOK_HOST_DEVICE int64_t Next(int64_t bucket) const {
    return bucket + 1 == num_buckets ? 0 : bucket + 1;
  }

  /// The row of `key`, or -1. No kernel may be changing the index.
  SOK_HOST_DEVICE int64_t Find(int64_t key) const {
    const int64_t home = Home(key);
    int64_t at = home;
    // After many erasures every bucket may count passed keys, so a full round ends the search, too.
    do {
      const DeviceBucket bucket = LoadBucket(buckets + at);
      uint32_t row_id = DeviceBucket::kFreeSlot;
      SOK_UNROLL
      for (int slot = 0; slot < DeviceBucket::kSlots; ++slot) {
        // A free slot may contain any key, but its row id is kFreeSlot: no second comparison is
        // needed.
        if (bucket.keys[slot] == key && row_id == DeviceBucket::kFreeSlot) {
          row_id = bucket.row_ids[slot];
        }
      }
      if (row_id != DeviceBucket::kFreeSlot) return row_id;
      if (bucket.num_passed == 0) return -1;
      at = Next(at);
    } while (at != home);
    return -1;
  }

  /// Adds a key that the index does not hold; a slot must be free. Threads may insert different
  /// keys concurrently; nothing else may run.
  SOK_HOST_DEVICE void Insert(int64_t key, uint32_t row_id) const {
    const int64_t home = Home(key);
    int64_t at = home;
    do {
      DeviceBucket* bucket = buckets + at;
      uint32_t owners[DeviceBucket::kSlots];  // loaded together, to wait for memory once
      SOK_UNROLL
      for (int slot = 0; slot < DeviceBucket::kSlots; ++slot) {
        owners[slot] = AtomicLoad(bucket->row_ids + slot);
      }
      SOK_UNROLL
      for (int slot = 0; slot < DeviceBucket::kSlots; ++slot) {
        if (owners[slot] != DeviceBucket::kFreeSlot) continue;
        owners[slot] =
            AtomicCompareExchange(bucket->row_ids + slot, DeviceBucket::kFreeSlot, row_id);
        if (owners[slot] != DeviceBucket::kFreeSlot) continue;  // another thread was faster
        bucket->keys[slot] = key;  // not read before the kernel has ended
        return;
      }
      AtomicAdd(&bucket->num_passed, 1);
      at = Next(at);
    } while (at != home);
  }

  /// The slot of `key` (bucket * kSlots + slot), or kNoSlot. No kernel may be changing the index.
  SOK_HOST_DEVICE int64_t FindSlot(int64_t key) const {
    const int64_t home = Home(key);
    int64_t at = home;
    do {
      const DeviceBucket& bucket = buckets[at];
      for (int slot = 0; slot < DeviceBucket::kSlots; ++slot) {
        if (bucket.keys[slot] == key && bucket.row_ids[slot] != DeviceBucket::kFreeSlot) {
          return at * DeviceBucket::kSlots + slot;
        }
      }
      if (bucket.num_passed == 0) return kNoSlot;
      at = Next(at);
    } while (at != home);
    return kNoSlot;
  }

  SOK_HOST_DEVICE uint32_t RowOfSlot(int64_t key_slot) const {
    return buckets[key_slot / DeviceBucket::kSlots].row_ids[key_slot % DeviceBucket::kSlots];
  }

  /// Frees the slot that FindSlot returned for `key`. Threads may erase different keys
  /// concurrently; nothing else may run.
  SOK_HOST_DEVICE void EraseSlot(int64_t key, int64_t key_slot) const {
    const int64_t at = key_slot / DeviceBucket::kSlots;
    buckets[at].row_ids[key_slot % DeviceBucket::kSlots] = DeviceBucket::kFreeSlot;
    for (int64_t passed = Home(key); passed != at; passed = Next(passed)) {
      AtomicAdd(&buckets[passed].num_passed, ~0u);
    }
  }
};

}  // namespace sok
