// SPDX-License-Identifier: Apache-2.0
// Reference for WriteFirstValues, column by column; not for kRows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/engine/first_value_columns.h"

namespace sok {

/// Writes the first value of `key` to row[0..dim). kPreset leaves the row unchanged.
inline void WriteFirstValue(const FirstValue& first_value, int64_t key, int64_t dim, float* row) {
  if (first_value.kind == FirstValue::Kind::kPreset) return;
  if (first_value.kind == FirstValue::Kind::kConstant) {
    std::fill_n(row, dim, AsElement(first_value.element, first_value.low_or_mean));
    return;
  }
  for (int64_t begin = 0; begin < dim; begin += kColumnsPerDraw) {
    const RandomWords words = DrawColumns(first_value, key, begin / kColumnsPerDraw);
    const int64_t width = std::min(kColumnsPerDraw, dim - begin);
    for (int64_t i = 0; i < width; ++i) {
      row[begin + i] = AsElement(first_value.element, ColumnValue(first_value, words.word[i]));
    }
  }
}

}  // namespace sok
