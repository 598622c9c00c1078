// SPDX-License-Identifier: Apache-2.0
// First values on the CPU. No table.
#include "ops/table/first_value.h"

#include <algorithm>

#include "ops/base/hash.h"
#include "ops/table/first_value_columns.h"

namespace sok {

uint64_t FirstValueStream(int64_t seed, const std::string& table_name) {
  uint64_t name_hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : table_name) {
    name_hash = (name_hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return MixBits(MixBits(name_hash) + static_cast<uint64_t>(seed));
}

void WriteFirstValue(const FirstValue& first_value, int64_t key, int64_t dim, float* row) {
  if (first_value.kind == FirstValue::Kind::kPreset) return;
  if (first_value.kind == FirstValue::Kind::kConstant) {
    std::fill_n(row, dim, first_value.low_or_mean);
    return;
  }
  for (int64_t begin = 0; begin < dim; begin += kColumnsPerDraw) {
    const RandomWords words = DrawColumns(first_value.stream, key, begin / kColumnsPerDraw);
    const int64_t width = std::min(kColumnsPerDraw, dim - begin);
    for (int64_t i = 0; i < width; ++i) row[begin + i] = ColumnValue(first_value, words.word[i]);
  }
}

}  // namespace sok
