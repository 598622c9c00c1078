// SPDX-License-Identifier: Apache-2.0
// (stream, key, column) -> number: the definition of first values, compiled for every device.
#pragma once

#include <cstdint>

#include "ops/base/counter_random.h"
#include "ops/engine/first_value.h"

namespace sok {

/// Columns that share a draw.
constexpr int64_t kColumnsPerDraw = 4;

/// Philox's counter for columns [4 * draw, 4 * draw + 4) of the row of `key`; its last word is 0.
SOK_HOST_DEVICE inline RandomWords DrawCounter(int64_t key, int64_t draw) {
  const auto bits = static_cast<uint64_t>(key);
  return {{static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32),
           static_cast<uint32_t>(draw), 0}};
}

/// The key whose first value is that of `key`.
SOK_HOST_DEVICE inline int64_t KeyInPeriod(const FirstValue& first_value, int64_t key) {
  if (first_value.period == 0) return key;
  const int64_t remainder = key % first_value.period;
  return remainder < 0 ? remainder + first_value.period : remainder;
}

/// The random words of these columns.
SOK_HOST_DEVICE inline RandomWords DrawColumns(const FirstValue& first_value, int64_t key,
                                               int64_t draw) {
  return Philox(DrawCounter(KeyInPeriod(first_value, key), draw), first_value.stream);
}

/// value, as it is in a row of these elements.
SOK_HOST_DEVICE inline float AsElement(Element element, float value) {
  if (element == Element::kBfloat16) return Nearest<Bfloat16>(value);
  return element == Element::kFloat16 ? Nearest<Float16>(value) : value;
}

/// The value of a column from its random word; not for kPreset and kRows.
SOK_HOST_DEVICE inline float ColumnValue(const FirstValue& first_value, uint32_t word) {
  const float first = first_value.low_or_mean;
  const float second = first_value.high_or_stddev;
  switch (first_value.kind) {
    case FirstValue::Kind::kUniform:
      return UniformFloat(word, first, second);
    case FirstValue::Kind::kNormal:
      return static_cast<float>(double{first} + double{second} * StandardNormal(word));
    case FirstValue::Kind::kTruncatedNormal:
      return static_cast<float>(double{first} + double{second} * TruncatedNormal(word));
    case FirstValue::Kind::kConstant:
    case FirstValue::Kind::kPreset:
    case FirstValue::Kind::kRows:
      break;
  }
  return first;
}

}  // namespace sok
