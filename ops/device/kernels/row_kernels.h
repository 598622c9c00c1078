// SPDX-License-Identifier: Apache-2.0
// Rows by row id: reads, writes, and first values of new ones.
#pragma once

#include <cstdint>

#include "ops/device/memory/count.h"
#include "ops/device/memory/float_pack.h"
#include "ops/engine/first_value_columns.h"
#include "ops/engine/rounding.h"
#include "ops/engine/row_sum.h"

namespace sok {

/// The first value of `key` in the columns of a pack, with the CPU's bits. A pack of four takes one
/// draw.
template <typename Pack>
SOK_HOST_DEVICE Pack FirstValuePack(const FirstValue& first_value, int64_t dim, int64_t key,
                                    int64_t column) {
  Pack pack;
  if (first_value.kind == FirstValue::Kind::kRows) {
    const float* columns = first_value.rows + KeyInPeriod(first_value, key) * dim + column;
    SOK_UNROLL
    for (int i = 0; i < Pack::width; ++i) pack.at[i] = AsElement(first_value.element, columns[i]);
    return pack;
  }
  if (first_value.kind == FirstValue::Kind::kConstant) {
    SOK_UNROLL
    for (int i = 0; i < Pack::width; ++i) {
      pack.at[i] = AsElement(first_value.element, first_value.low_or_mean);
    }
    return pack;
  }
  const RandomWords words = DrawColumns(first_value, key, column / kColumnsPerDraw);
  if constexpr (Pack::width == kColumnsPerDraw) {
    SOK_UNROLL
    for (int i = 0; i < Pack::width; ++i) {
      pack.at[i] = AsElement(first_value.element, ColumnValue(first_value, words.word[i]));
    }
  } else {
    // Not words.word[column % 4]: an array indexed at run time does not stay in registers.
    uint32_t word = words.word[0];
    SOK_UNROLL
    for (int i = 1; i < kColumnsPerDraw; ++i) {
      if (column % kColumnsPerDraw == i) word = words.word[i];
    }
    pack.at[0] = AsElement(first_value.element, ColumnValue(first_value, word));
  }
  return pack;
}

/// out[i] = plane[row_ids[i]]; out[i] is unchanged if row_ids[i] < 0.
template <typename Pack, typename Number>
struct GatherPacks {
  PackGrid<Pack> grid;
  int64_t dim;
  const int64_t* row_ids;
  const Number* plane;
  float* out;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    const int64_t row_id = row_ids[place.row];
    if (row_id < 0) return;
    StreamPack(out + place.row * dim + place.column,
               LoadPack<Pack>(plane + row_id * dim + place.column));
  }
};

/// plane[row_ids[i]] = rows[i], for distinct row ids; skips row_ids[i] < 0.
template <typename Pack, typename Number>
struct ScatterPacks {
  PackGrid<Pack> grid;
  int64_t dim;
  const int64_t* row_ids;
  const float* rows;
  Number* plane;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    const int64_t row_id = row_ids[place.row];
    if (row_id < 0) return;
    StorePack(plane + row_id * dim + place.column,
              LoadPack<Pack>(rows + place.row * dim + place.column));
  }
};

/// plane[row_ids[k]] = first value of keys[k].
template <typename Pack, typename Number>
struct FillFirstValues {
  PackGrid<Pack> grid;
  int64_t dim;
  FirstValue first_value;  // not kPreset
  const int64_t* keys;
  const int64_t* row_ids;
  Number* plane;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    StorePack(plane + row_ids[place.row] * dim + place.column,
              FirstValuePack<Pack>(first_value, dim, keys[place.row], place.column));
  }
};

/// out[i] = first value of keys[i] if row_ids[i] < 0; other rows are unchanged.
template <typename Pack>
struct WriteAbsentRows {
  PackGrid<Pack> grid;
  int64_t dim;
  FirstValue first_value;  // not kPreset
  const int64_t* keys;
  const int64_t* row_ids;
  float* out;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    if (row_ids[place.row] >= 0) return;
    StorePack(out + place.row * dim + place.column,
              FirstValuePack<Pack>(first_value, dim, keys[place.row], place.column));
  }
};

/// plane[row_ids[k]] = rows[sources[k]], for new rows whose values come from the caller.
template <typename Pack, typename Number>
struct CopyGivenRows {
  PackGrid<Pack> grid;
  int64_t dim;
  const int64_t* row_ids;
  const int32_t* sources;
  const float* rows;
  Number* plane;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    StorePack(plane + row_ids[place.row] * dim + place.column,
              LoadPack<Pack>(rows + sources[place.row] * dim + place.column));
  }
};

/// plane[row_ids[k]] = value in all columns.
template <typename Pack>
struct FillRows {
  PackGrid<Pack> grid;
  int64_t dim;
  const int64_t* row_ids;
  float value;
  float* plane;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    Pack pack;
    SOK_UNROLL
    for (int column = 0; column < Pack::width; ++column) pack.at[column] = value;
    StorePack(plane + row_ids[place.row] * dim + place.column, pack);
  }
};

/// salts[row_ids[k]] = salt of keys[k].
struct WriteSalts {
  const int64_t* keys;
  const int64_t* row_ids;
  Bfloat16* salts;

  SOK_HOST_DEVICE void operator()(int64_t i) const { salts[row_ids[i]] = SaltOf(keys[i]); }
};

/// sums[i] = RowSum(sums[i], rows[i]).
template <typename Number>
struct SumOfRow {
  int64_t width;
  const Number* rows;
  uint64_t* sums;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    sums[i] = RowSum(sums[i], rows + i * width, width);
  }
};

/// As Engine::GatherRows, on a queue.
template <typename Queue, typename Number>
void GatherRows(Queue& queue, Count num_rows, int64_t dim,
                const int64_t* row_ids,  // [num_rows]
                const Number* plane,     // [rows, dim]
                float* out) {            // [num_rows, dim]
  ForEachPack(queue, num_rows, dim, {plane, out}, [&](auto pack, auto grid) {
    return GatherPacks<decltype(pack), Number>{grid, dim, row_ids, plane, out};
  });
}

/// plane[row_ids[i]] = rows[i]; row ids are distinct. Skips row_ids[i] < 0.
template <typename Queue, typename Number>
void ScatterRows(Queue& queue, Count num_rows, int64_t dim,
                 const int64_t* row_ids,  // [num_rows]
                 const float* rows,       // [num_rows, dim]
                 Number* plane) {         // [rows, dim]
  ForEachPack(queue, num_rows, dim, {plane, rows}, [&](auto pack, auto grid) {
    return ScatterPacks<decltype(pack), Number>{grid, dim, row_ids, rows, plane};
  });
}

/// out[i] = first value of keys[i] if row_ids[i] < 0; other rows are unchanged.
template <typename Queue>
void FillAbsentRows(Queue& queue, Count num_keys, int64_t dim, const FirstValue& first_value,
                    const int64_t* keys,     // [num_keys]
                    const int64_t* row_ids,  // [num_keys]
                    float* out) {            // [num_keys, dim]
  if (first_value.kind == FirstValue::Kind::kPreset) return;
  ForEachPack(queue, num_keys, dim, {out}, [&](auto pack, auto grid) {
    return WriteAbsentRows<decltype(pack)>{grid, dim, first_value, keys, row_ids, out};
  });
}

}  // namespace sok
