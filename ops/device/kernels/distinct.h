// SPDX-License-Identifier: Apache-2.0
// Finds the distinct keys of a batch by hashing, in the order of their first appearance.
//
// The hash table holds positions in the batch, 4 bytes each; keys are read from the batch. Equal
// keys share a cell, which ends up with the smallest of their positions. A key whose cell holds its
// own position is the first of its kind, and the number of such keys before it is its number. The
// result is therefore the CPU's, whatever the order in which threads run.
#pragma once

#include <cstdint>

#include "ops/base/hash.h"
#include "ops/base/hash_secret.h"
#include "ops/base/threads/atomics.h"
#include "ops/device/kernels/index_kernels.h"
#include "ops/device/memory/count.h"
#include "ops/device/memory/scratch.h"

namespace sok {

/// The hash table of Distinct: at least twice as many cells as keys in this batch.
struct PositionCells {
  static constexpr uint32_t kFree = UINT32_MAX;

  uint32_t* cells;
  Count num_keys;
  uint64_t secret;

  /// Cells to allocate.
  static int64_t Bound(int64_t num_keys) { return 4 * num_keys; }

  SOK_HOST_DEVICE uint32_t mask() const {
    uint32_t bits = static_cast<uint32_t>(2 * num_keys.value() - 1);
    for (int shift = 1; shift < 32; shift *= 2) bits |= bits >> shift;
    return bits;
  }
};

struct ClearCells {
  PositionCells table;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    if (i <= table.mask()) table.cells[i] = PositionCells::kFree;
  }
};

/// Puts position i into the cell of keys[i].
struct PlaceKeys {
  PositionCells table;
  const int64_t* keys;
  uint32_t* cell_of;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t key = keys[i];
    const auto position = static_cast<uint32_t>(i);
    const uint32_t mask = table.mask();
    uint32_t cell = static_cast<uint32_t>(HashKey(key, table.secret) >> 32) & mask;
    for (;; cell = (cell + 1) & mask) {
      uint32_t holder = AtomicLoad(table.cells + cell);
      if (holder == PositionCells::kFree) {
        holder = AtomicCompareExchange(table.cells + cell, PositionCells::kFree, position);
        if (holder == PositionCells::kFree) break;
      }
      if (keys[holder] != key) continue;  // a cell never changes to a position of another key
      if (position < holder) AtomicMin(table.cells + cell, position);
      break;
    }
    cell_of[i] = cell;
  }
};

/// first_of[i] = the first position of keys[i]; one bit per key, set if it is the first.
struct FindFirst {
  const uint32_t* cells;
  uint32_t* cell_of;  // in: the cell of each key; out: the first position
  uint32_t* is_first;

  SOK_HOST_DEVICE bool Vote(int64_t i) const {
    const uint32_t first = cells[cell_of[i]];
    cell_of[i] = first;
    return first == static_cast<uint32_t>(i);
  }
  SOK_HOST_DEVICE void Tally(int64_t tile, uint32_t mask) const { is_first[tile] = mask; }
};

/// Numbers the keys by first appearance.
struct NumberKeys {
  const int64_t* keys;
  const uint32_t* first_of;
  Rank rank;
  int64_t* distinct_keys;
  int32_t* first_positions;  // or nullptr
  int32_t* inverse;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const uint32_t first = first_of[i];
    const int32_t number = rank.Of(first);
    inverse[i] = number;
    if (first != static_cast<uint32_t>(i)) return;
    distinct_keys[number] = keys[i];
    if (first_positions != nullptr) first_positions[number] = static_cast<int32_t>(i);
  }
};

/// Writes the distinct values of `keys` in the order of their first appearance; keys[i] ==
/// distinct_keys[inverse[i]] for all i. Returns the device address of their number, which, like the
/// scratch memory, lives until the caller's Frame ends.
template <typename Queue>
const int32_t* DistinctKeys(Queue& queue, Scratch<Queue>& scratch, Count num_keys,
                            const int64_t* keys,       // [num_keys], at most 2^30
                            int64_t* distinct_keys,    // capacity [num_keys], not `keys` itself
                            int32_t* first_positions,  // capacity [num_keys], or nullptr
                            int32_t* inverse) {        // [num_keys]
  const int64_t num_tiles = NumTiles(num_keys.bound);
  const PositionCells table{scratch.template Take<uint32_t>(PositionCells::Bound(num_keys.bound)),
                            num_keys, HashSecret()};
  auto* cell_of = scratch.template Take<uint32_t>(num_keys.bound);
  auto* is_first = scratch.template Take<uint32_t>(num_tiles);
  auto* tile_sums = scratch.template Take<int32_t>(num_tiles + 1);
  queue.ForEach(num_keys.Times(4), ClearCells{table});
  queue.ForEach(num_keys, PlaceKeys{table, keys, cell_of});
  queue.ForEachVote(num_keys, FindFirst{table.cells, cell_of, is_first});
  queue.ExclusiveSum(num_tiles, TileCount{is_first, num_keys}, tile_sums);
  queue.ForEach(
      num_keys,
      NumberKeys{keys, cell_of, {is_first, tile_sums}, distinct_keys, first_positions, inverse});
  return tile_sums + num_tiles;
}

}  // namespace sok
