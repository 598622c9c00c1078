// SPDX-License-Identifier: Apache-2.0
// Keys -> row ids without a hash index: row = local key, and one bit per row that tells whether its
// key has come. The interface of DeviceIndex on bits, and the kernels that only such a table needs.
#pragma once

#include <cstdint>

#include "ops/base/placement.h"
#include "ops/base/threads/atomics.h"
#include "ops/device/kernels/new_key_kernels.h"
#include "ops/device/memory/count.h"

namespace sok {

/// How a table without a hash index numbers its rows.
struct DirectRows {
  Placement placement;
  int64_t num_rows;  // rows of this rank

  /// The row of `key`; -1 if the table cannot hold it.
  SOK_HOST_DEVICE int64_t RowOf(int64_t key) const { return placement.RowOf(key, num_rows); }
  SOK_HOST_DEVICE int64_t KeyOf(int64_t row) const { return placement.GlobalKey(row); }
};

/// The changes of a kernel are of distinct keys: each bit is flipped at most once, by adding or
/// subtracting it.
struct DirectIndex {
  uint32_t* bits;     // [num_words]; keys of rows beyond have not come
  int64_t num_words;  // NumTiles(number of rows)
  DirectRows rows;

  static constexpr int64_t kNoSlot = -1;

  /// The row of `key`, or -1. No kernel may be changing the index.
  SOK_HOST_DEVICE int64_t Find(int64_t key) const {
    const int64_t row = rows.RowOf(key);
    if (row < 0 || row / kTile >= num_words) return -1;
    return ((bits[row / kTile] >> (row % kTile)) & 1u) ? row : -1;
  }

  /// There must be a word for the row, and its key must not be present.
  SOK_HOST_DEVICE void Insert(int64_t row) const {
    AtomicAdd(bits + row / kTile, uint32_t{1} << (row % kTile));
  }

  SOK_HOST_DEVICE int64_t FindSlot(int64_t key) const { return Find(key); }
  SOK_HOST_DEVICE uint32_t RowOfSlot(int64_t row) const { return static_cast<uint32_t>(row); }
  SOK_HOST_DEVICE void EraseSlot(int64_t, int64_t row) const {
    AtomicAdd(bits + row / kTile, ~(uint32_t{1} << (row % kTile)) + 1);
  }
};

/// The result of CheckDirectKeys; initially all ones.
struct DirectKeysFound {
  uint32_t first_foreign;    // position of the first key that is not the table's
  uint32_t flipped_highest;  // ~(the highest row)
};

struct CheckDirectKeys {
  DirectRows rows;
  const int64_t* keys;
  DirectKeysFound* found;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = rows.RowOf(keys[i]);
    if (row < 0) {
      Lower(&found->first_foreign, static_cast<uint32_t>(i));
    } else {
      Lower(&found->flipped_highest, ~static_cast<uint32_t>(row));
    }
  }

  /// The comparison keeps most threads from an atomic operation on a shared word.
  SOK_HOST_DEVICE static void Lower(uint32_t* least, uint32_t value) {
    if (value < AtomicLoad(least)) AtomicMin(least, value);
  }
};

/// As InsertNewKeys.
struct InsertDirectKeys {
  DirectIndex index;
  const int64_t* keys;  // [num_new], distinct, none of them present
  int64_t* new_rows;    // [num_new], written

  SOK_HOST_DEVICE void operator()(int64_t k) const {
    new_rows[k] = index.rows.RowOf(keys[k]);
    index.Insert(new_rows[k]);
  }
};

/// One item: adds the inserts of InsertDirectKeys to the counters.
struct CommitDirectInserts {
  TableCounters* counters;
  const int32_t* num_new;
  int64_t end_row;  // one past the highest row of the batch

  SOK_HOST_DEVICE void operator()(int64_t) const {
    counters->num_keys += *num_new;
    if (counters->num_rows < end_row) counters->num_rows = end_row;
  }
};

struct KeysOfRows {
  DirectRows rows;
  int64_t begin;
  int64_t* keys;  // of rows begin, begin + 1, ...

  SOK_HOST_DEVICE void operator()(int64_t i) const { keys[i] = rows.KeyOf(begin + i); }
};

}  // namespace sok
