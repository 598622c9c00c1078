// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/rows/narrow_rows.h"

#include "ops/base/wide_vectors.h"
#include "ops/cpu/rows/fixed_dim.h"
#include "ops/cpu/rows/halves_avx512.h"
#include "ops/cpu/rows/row_numbers.h"

namespace sok {
namespace {

template <typename Number, typename Dim>
SOK_WIDE_VECTORS void ReadRange(const Number* plane, Dim dim, const RowRange& range, int64_t last,
                                const Bfloat16* salts, float* floats) {
  const int64_t size = dim;
  const int64_t ahead = 2 * RowsOfGroup(size);
  for (int64_t i = range.begin; i < range.end; ++i, floats += size) {
    if (i + ahead < last) {
      const int64_t row_id = range.At(i + ahead);
      PrefetchRow(plane + row_id * size, size);
      if (salts != nullptr) __builtin_prefetch(salts + row_id);
    }
    if (range.At(i) >= 0) LoadRow(plane + range.At(i) * size, dim, floats);
  }
}

template <bool kIsDrawn, typename Number, typename Dim>
SOK_WIDE_VECTORS void WriteRange(const float* floats, Dim dim, const RowRange& range,
                                 const Rounding& rounding, Number* plane) {
  const int64_t size = dim;
  // Of all rows at once: a call for each takes up to a sixth of a step (row-wise Adagrad, dim 16).
  const int64_t first = kIsDrawn ? RoundSixteens(floats, size, range, rounding, plane) : 0;
  if (first == size) return;
  for (int64_t i = range.begin; i < range.end; ++i, floats += size) {
    const int64_t row_id = range.At(i);
    if (row_id < 0) continue;
    const RowDraws draws = kIsDrawn ? rounding.Drawn(row_id) : RowDraws(0, false);
    Number* __restrict to = plane + row_id * size;
    auto drawn_column = static_cast<uint32_t>(first);  // 32 bits, as the vectors that count it
    SOK_FOR_COLUMNS
    for (int64_t column = first; column < size; ++column, ++drawn_column) {
      RoundTo(floats[column], draws.At(drawn_column), to + column);
    }
  }
}

}  // namespace

template <typename Number>
void ReadRows(const Number* plane, int64_t dim, const RowRange& range, int64_t last,
              const Bfloat16* salts, float* floats) {
  WithFixedDim<Number>(
      dim, [&](auto fixed_dim) { ReadRange(plane, fixed_dim, range, last, salts, floats); });
}

template <typename Number>
void WriteRows(const float* floats, int64_t dim, const RowRange& range, const Rounding& rounding,
               Number* plane) {
  WithFixedDim<Number>(dim, [&](auto fixed_dim) {
    if (rounding.salts != nullptr) {
      WriteRange<true>(floats, fixed_dim, range, rounding, plane);
    } else {
      WriteRange<false>(floats, fixed_dim, range, rounding, plane);
    }
  });
}

template void ReadRows(const Bfloat16*, int64_t, const RowRange&, int64_t, const Bfloat16*, float*);
template void ReadRows(const Float16*, int64_t, const RowRange&, int64_t, const Bfloat16*, float*);
template void WriteRows(const float*, int64_t, const RowRange&, const Rounding&, Bfloat16*);
template void WriteRows(const float*, int64_t, const RowRange&, const Rounding&, Float16*);

}  // namespace sok
