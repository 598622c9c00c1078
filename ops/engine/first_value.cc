// SPDX-License-Identifier: Apache-2.0
// First values on the CPU. No table.
#include "ops/engine/first_value.h"

#include <algorithm>

#include "ops/base/hash.h"
#include "ops/base/philox_lanes.h"
#include "ops/base/wide_vectors.h"
#include "ops/engine/first_value_columns.h"

namespace sok {
namespace {

constexpr int64_t kValuesPerLanes = kPhiloxLanes * kColumnsPerDraw;

/// ColumnValue for the words of all lanes.
SOK_WIDE_VECTORS void UniformValues(float low, float high, const uint32_t* words, float* values) {
  for (int64_t i = 0; i < kValuesPerLanes; ++i) values[i] = UniformFloat(words[i], low, high);
}

/// Up to kPhiloxLanes draws that wait to be computed together, and the columns that they fill.
class PendingDraws {
 public:
  explicit PendingDraws(const FirstValue& first_value) : first_value_(first_value) {}
  ~PendingDraws() { Write(); }

  void Add(int64_t key, int64_t draw, int64_t num_columns, float* columns) {
    const RandomWords counter = DrawCounter(key, draw);
    counters_.word0[size_] = counter.word[0];
    counters_.word1[size_] = counter.word[1];
    counters_.word2[size_] = counter.word[2];
    places_[size_] = {columns, num_columns};
    if (++size_ == kPhiloxLanes) Write();
  }

 private:
  struct Place {
    float* columns;
    int64_t num_columns;
  };

  void Write() {
    uint32_t words[kValuesPerLanes];
    PhiloxLanes(counters_, first_value_.stream, words);
    if (first_value_.kind == FirstValue::Kind::kUniform) {
      WriteUniform(words);
    } else {
      WriteAny(words);
    }
    size_ = 0;
  }

  void WriteUniform(const uint32_t* words) const {
    float values[kValuesPerLanes];
    UniformValues(first_value_.low_or_mean, first_value_.high_or_stddev, words, values);
    for (int i = 0; i < size_; ++i) {
      const Place& place = places_[i];
      const float* drawn = values + i * kColumnsPerDraw;
      if (place.num_columns == kColumnsPerDraw) {  // one store instead of a call
        std::copy_n(drawn, kColumnsPerDraw, place.columns);
      } else {
        std::copy_n(drawn, place.num_columns, place.columns);
      }
    }
  }

  void WriteAny(const uint32_t* words) const {
    for (int i = 0; i < size_; ++i) {
      const Place& place = places_[i];
      for (int64_t column = 0; column < place.num_columns; ++column) {
        place.columns[column] = ColumnValue(first_value_, words[i * kColumnsPerDraw + column]);
      }
    }
  }

  const FirstValue& first_value_;
  CounterLanes counters_;
  Place places_[kPhiloxLanes];
  int size_ = 0;
};

}  // namespace

uint64_t FirstValueStream(int64_t seed, const std::string& table_name) {
  uint64_t name_hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : table_name) {
    name_hash = (name_hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return MixBits(MixBits(name_hash) + static_cast<uint64_t>(seed));
}

namespace {

void WriteFloats(const FirstValue& first_value, int64_t num_keys, const int64_t* keys,
                 const int64_t* row_ids, int64_t dim, float* rows) {
  const auto row_of = [&](int64_t i) { return rows + (row_ids == nullptr ? i : row_ids[i]) * dim; };
  if (first_value.kind == FirstValue::Kind::kConstant) {
    for (int64_t i = 0; i < num_keys; ++i) std::fill_n(row_of(i), dim, first_value.low_or_mean);
    return;
  }
  if (first_value.kind == FirstValue::Kind::kRows) {
    for (int64_t i = 0; i < num_keys; ++i) {
      std::copy_n(first_value.rows + KeyInPeriod(first_value, keys[i]) * dim, dim, row_of(i));
    }
    return;
  }
  PendingDraws pending(first_value);
  for (int64_t i = 0; i < num_keys; ++i) {
    float* row = row_of(i);
    const int64_t key = KeyInPeriod(first_value, keys[i]);
    for (int64_t begin = 0; begin < dim; begin += kColumnsPerDraw) {
      pending.Add(key, begin / kColumnsPerDraw, std::min(kColumnsPerDraw, dim - begin),
                  row + begin);
    }
  }
}

}  // namespace

void WriteFirstValues(const FirstValue& first_value, int64_t num_keys, const int64_t* keys,
                      const int64_t* row_ids, int64_t dim, float* rows) {
  if (first_value.kind == FirstValue::Kind::kPreset) return;
  WriteFloats(first_value, num_keys, keys, row_ids, dim, rows);
  if (first_value.element == Element::kFloat32) return;
  for (int64_t i = 0; i < num_keys; ++i) {
    float* row = rows + (row_ids == nullptr ? i : row_ids[i]) * dim;
    for (int64_t column = 0; column < dim; ++column) {
      row[column] = AsElement(first_value.element, row[column]);
    }
  }
}

}  // namespace sok
