// SPDX-License-Identifier: Apache-2.0
// The kernels on the index: what each does with item i. No orchestration, no rows.
#pragma once

#include <cstdint>

#include "ops/device/kernels/bucket_index.h"
#include "ops/device/memory/count.h"
#include "ops/device/memory/float_pack.h"

namespace sok {

/// Frees every slot.
struct ClearBuckets {
  DeviceBucket* buckets;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    DeviceBucket bucket;
    SOK_UNROLL
    for (int slot = 0; slot < DeviceBucket::kSlots; ++slot) {
      bucket.keys[slot] = 0;
      bucket.row_ids[slot] = DeviceBucket::kFreeSlot;
    }
    bucket.num_passed = 0;
    buckets[i] = bucket;
  }
};

// An Index is a DeviceIndex or a DirectIndex.

/// row_ids[i] = row of keys[i], or -1.
template <typename Index>
struct FindRows {
  Index index;
  const int64_t* keys;  // [num_keys]
  int64_t* row_ids;     // [num_keys]

  SOK_HOST_DEVICE void operator()(int64_t i) const { row_ids[i] = index.Find(keys[i]); }
};

/// As FindRows, and one bit of `missing` per key, set if it has no row.
template <typename Index>
struct FindRowsAndMissing {
  Index index;
  const int64_t* keys;  // [num_keys]
  int64_t* row_ids;     // [num_keys]
  uint32_t* missing;    // [NumTiles(num_keys)]

  SOK_HOST_DEVICE bool Vote(int64_t i) const {
    const int64_t row_id = index.Find(keys[i]);
    row_ids[i] = row_id;
    return row_id < 0;
  }
  SOK_HOST_DEVICE void Tally(int64_t tile, uint32_t mask) const { missing[tile] = mask; }
};

/// Finds and copies rows in one pass: each key touches two places of memory. out[i] is unchanged if
/// the key has no row.
template <typename Pack, typename Number, typename Index = DeviceIndex>
struct FindAndGather {
  Index index;
  int64_t dim;
  const int64_t* keys;
  const Number* plane;
  int64_t* row_ids;
  float* out;

  SOK_HOST_DEVICE uint32_t Look(int64_t i) const {
    const int64_t row_id = index.Find(keys[i]);
    row_ids[i] = row_id;
    return row_id < 0 ? DeviceBucket::kFreeSlot : static_cast<uint32_t>(row_id);
  }
  SOK_HOST_DEVICE void Move(int64_t i, int64_t part, uint32_t row_id) const {
    if (row_id == DeviceBucket::kFreeSlot) return;
    const int64_t column = part * Pack::width;
    StreamPack(out + i * dim + column, LoadPack<Pack>(plane + row_id * dim + column));
  }
};

/// Moves the key in slot i of `from` (bucket * kSlots + slot), if any, to `to`.
struct RehashSlot {
  const DeviceBucket* from;
  DeviceIndex to;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const DeviceBucket* bucket = from + i / DeviceBucket::kSlots;
    const uint32_t row_id = bucket->row_ids[i % DeviceBucket::kSlots];
    if (row_id == DeviceBucket::kFreeSlot) return;
    to.Insert(bucket->keys[i % DeviceBucket::kSlots], row_id);
  }
};

/// Inserts new key number k. Assigns rows of erased keys first, the last erased first, then unused
/// rows: the same order as on the CPU.
struct InsertNewKeys {
  DeviceIndex index;
  const int64_t* keys;        // [num_new], distinct, none of them present
  const uint32_t* free_rows;  // [num_free]
  const int64_t* num_free;    // before this batch
  const int64_t* num_rows;    // before this batch
  int64_t* new_rows;          // [num_new], written

  SOK_HOST_DEVICE void operator()(int64_t k) const {
    const int64_t row_id = k < *num_free ? static_cast<int64_t>(free_rows[*num_free - 1 - k])
                                         : *num_rows + k - *num_free;
    new_rows[k] = row_id;
    index.Insert(keys[k], static_cast<uint32_t>(row_id));
  }
};

/// One bit per distinct key of `keys`, set if the index holds it; slots[i] = its slot.
template <typename Index>
struct FindSlots {
  Index index;
  const int64_t* keys;
  int64_t* slots;
  uint32_t* found;

  SOK_HOST_DEVICE bool Vote(int64_t i) const {
    slots[i] = index.FindSlot(keys[i]);
    return slots[i] != Index::kNoSlot;
  }
  SOK_HOST_DEVICE void Tally(int64_t tile, uint32_t mask) const { found[tile] = mask; }
};

/// The number of bits set in `masks`, by tile: the input of ExclusiveSum.
struct TileCount {
  const uint32_t* masks;
  Count num_items;

  SOK_HOST_DEVICE int32_t operator()(int64_t tile) const {
    return tile * kTile < num_items.value() ? CountBits(masks[tile]) : 0;
  }
};

/// The rank of item i among those whose bit is set: the number of such items before it.
struct Rank {
  const uint32_t* masks;
  const int32_t* tile_sums;  // from ExclusiveSum of TileCount

  SOK_HOST_DEVICE bool IsSet(int64_t i) const { return (masks[i / kTile] >> (i % kTile)) & 1u; }
  SOK_HOST_DEVICE int32_t Of(int64_t i) const {
    const uint32_t below = (1u << (i % kTile)) - 1;
    return tile_sums[i / kTile] + CountBits(masks[i / kTile] & below);
  }
};

/// Erases the keys that FindSlots found and pushes their rows onto the stack of free rows.
template <typename Index>
struct EraseFound {
  Index index;
  const int64_t* keys;
  const int64_t* slots;
  Rank found;
  const int64_t* num_rows;
  uint32_t* rows;  // [num_rows + number of erased keys], a list to append their rows to, or nullptr

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    if (!found.IsSet(i)) return;
    const int64_t slot = slots[i];
    if (rows != nullptr) rows[*num_rows + found.Of(i)] = index.RowOfSlot(slot);
    index.EraseSlot(keys[i], slot);
  }
};

/// Writes the keys of bucket i to the positions of their rows.
struct KeysByRow {
  const DeviceBucket* buckets;
  int64_t first_row, num_rows;
  int64_t* keys;           // [num_rows], of rows first_row, first_row + 1, ...
  unsigned char* has_key;  // [num_rows], zeros before

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const DeviceBucket bucket = LoadBucket(buckets + i);
    SOK_UNROLL
    for (int slot = 0; slot < DeviceBucket::kSlots; ++slot) {
      if (bucket.row_ids[slot] == DeviceBucket::kFreeSlot) continue;
      const int64_t place = static_cast<int64_t>(bucket.row_ids[slot]) - first_row;
      if (place < 0 || place >= num_rows) continue;
      keys[place] = bucket.keys[slot];
      has_key[place] = 1;
    }
  }
};

/// first = the smallest position of a row id outside [0, num_rows); initially ~0.
struct FindFirstWithoutRow {
  const int64_t* row_ids;
  Count num_rows;
  uint32_t* first;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    if (row_ids[i] >= 0 && row_ids[i] < num_rows.value()) return;
    const auto position = static_cast<uint32_t>(i);
    if (position < AtomicLoad(first)) AtomicMin(first, position);
  }
};

}  // namespace sok
