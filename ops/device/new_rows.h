// SPDX-License-Identifier: Apache-2.0
// What a batch adds to a table: its new keys, and what their rows hold.
#ifndef SOK_OPS_DEVICE_NEW_ROWS_H_
#define SOK_OPS_DEVICE_NEW_ROWS_H_

#include <cstdint>

#include "ops/device/count.h"
#include "ops/device/distinct.h"
#include "ops/device/growing_rows.h"
#include "ops/device/new_key_kernels.h"
#include "ops/device/row_kernels.h"
#include "ops/device/scratch.h"
#include "ops/table/table.h"

namespace sok {

/// In scratch memory.
struct NewKeys {
  Count count;                     // of new keys
  const int64_t* keys;             // [count], distinct, in the order of first appearance
  const int32_t* first_positions;  // [count], in the batch
  Count num_missing;               // places of the batch without a row
  const int32_t* places;           // [num_missing]
  const int32_t* numbers;          // [num_missing], of `keys`; nullptr: 0, 1, ...
};

/// The keys of a batch that have no row: one bit of `missing` for each of them.
template <typename Queue>
NewKeys TakeNewKeys(Queue& queue, Scratch<Queue>& scratch, int64_t num_keys,
                    const int64_t* keys,      // [num_keys]
                    const uint32_t* missing,  // [NumTiles(num_keys)]
                    bool are_distinct) {      // no key stands twice in `keys`
  const int64_t num_tiles = NumTiles(num_keys);
  auto* tile_sums = scratch.template Take<int32_t>(num_tiles + 1);
  auto* missing_keys = scratch.template Take<int64_t>(num_keys);
  auto* places = scratch.template Take<int32_t>(num_keys);
  queue.ExclusiveSum(num_tiles, TileCount{missing, num_keys}, tile_sums);
  queue.ForEach(num_keys, CompactMissing{keys, {missing, tile_sums}, missing_keys, places});
  const Count num_missing(num_keys, tile_sums + num_tiles);
  if (are_distinct) return {num_missing, missing_keys, places, num_missing, places, nullptr};
  auto* distinct = scratch.template Take<int64_t>(num_keys);
  auto* first_positions = scratch.template Take<int32_t>(num_keys);
  auto* numbers = scratch.template Take<int32_t>(num_keys);
  const int32_t* num_new =
      DistinctKeys(queue, scratch, num_missing, missing_keys, distinct, first_positions, numbers);
  const Count num_new_keys(num_keys, num_new);
  queue.ForEach(num_new_keys, PlaceFirst{places, first_positions});
  return {num_new_keys, distinct, first_positions, num_missing, places, numbers};
}

/// Gives the places of the batch without a row the rows of their keys.
template <typename Queue>
void FillMissingRows(Queue& queue, const NewKeys& new_keys,
                     const int64_t* new_rows,  // [count]
                     int64_t* row_ids) {       // [keys of the batch]
  queue.ForEach(new_keys.num_missing,
                FillMissing{new_keys.places, new_keys.numbers, new_rows, row_ids});
}

/// Writes the new rows in every plane: what the caller brings, or first values.
template <typename Queue>
void WriteNewRows(Queue& queue, const TableOptions& options, const NewKeys& new_keys,
                  const int64_t* new_rows,    // [count]
                  const float* initial_rows,  // [keys of the batch, dim], or nullptr
                  const DevicePlanes<Queue>& planes) {
  const FirstValue& first_value = options.first_value;
  if (planes.rows != nullptr) {
    float* plane = planes.rows->data();
    WithPack(options.dim, {plane, initial_rows}, [&](auto pack) {
      using Pack = decltype(pack);
      const PackGrid<Pack> grid(options.dim);
      const Count num_packs = new_keys.count.Times(grid.packs_per_row());
      if (initial_rows != nullptr) {
        queue.ForEach(num_packs,
                      CopyGivenRows<Pack>{grid, options.dim, new_rows, new_keys.first_positions,
                                          initial_rows, plane});
      } else if (first_value.kind != FirstValue::Kind::kPreset) {
        queue.ForEach(num_packs, FillFirstValues<Pack>{grid, options.dim, first_value,
                                                       new_keys.keys, new_rows, plane});
      }
    });
  }
  for (const auto& slot : planes.slots) {
    const int64_t width = slot.rows->width();
    WithPack(width, {slot.rows->data()}, [&](auto pack) {
      using Pack = decltype(pack);
      const PackGrid<Pack> grid(width);
      queue.ForEach(new_keys.count.Times(grid.packs_per_row()),
                    FillRows<Pack>{grid, width, new_rows, slot.initial_value, slot.rows->data()});
    });
  }
}

}  // namespace sok

#endif  // SOK_OPS_DEVICE_NEW_ROWS_H_
