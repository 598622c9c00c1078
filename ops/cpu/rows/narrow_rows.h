// SPDX-License-Identifier: Apache-2.0
// Rows of two bytes of a plane, by way of floats.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/base/halves.h"
#include "ops/engine/rounding.h"

namespace sok {

/// Rows begin, begin + 1, ... of a batch: by row id, or, without row ids, of these numbers. Those
/// below 0 are skipped.
struct RowRange {
  const int64_t* row_ids;
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
  int64_t At(int64_t i) const { return row_ids == nullptr ? i : row_ids[i]; }
};

/// Rows that are worked on at a time: few enough for their floats to stay in the first cache.
constexpr int64_t RowsOfGroup(int64_t dim) {
  return std::min<int64_t>(std::max<int64_t>(2048 / dim, 4), 24);
}

/// Widens the rows of `range` to floats [size, dim], and prefetches those that follow in the batch,
/// up to `last`, with their salts.
template <typename Number>
void ReadRows(const Number* plane, int64_t dim, const RowRange& range, int64_t last,
              const Bfloat16* salts, float* floats);

/// The way back, rounded.
template <typename Number>
void WriteRows(const float* floats, int64_t dim, const RowRange& range, const Rounding& rounding,
               Number* plane);

}  // namespace sok
