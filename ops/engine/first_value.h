// SPDX-License-Identifier: Apache-2.0
// A row's first value: a function of (seed, table name, key, column) on any device and rank.
#pragma once

#include <cstdint>
#include <string>

#include "ops/base/names.h"
#include "ops/engine/rows_view.h"

namespace sok {

struct FirstValue {
  enum class Kind {
    kUniform,          // low + (high - low) * u, u in [0, 1)
    kNormal,           // mean + stddev * n
    kTruncatedNormal,  // as kNormal, n within two standard deviations of 0
    kConstant,         // low
    kPreset,           // what the row's memory holds when it is assigned
    kRows,             // rows[floormod(key, period)]
  };
  Kind kind = Kind::kConstant;
  float low_or_mean = 0.0f;
  float high_or_stddev = 0.0f;
  uint64_t stream = 0;    // from FirstValueStream; differs between tables and seeds
  int64_t period = 0;     // if > 0, a key has the first value of the key floormod(key, period)
  float* rows = nullptr;  // of kRows: [period, dim of the table], in the engine's memory
  Element element = Element::kFloat32;  // of the table's rows: first values are such numbers
};

constexpr Named<FirstValue::Kind> kFirstValueKinds[] = {
    {"uniform", FirstValue::Kind::kUniform},
    {"normal", FirstValue::Kind::kNormal},
    {"truncated_normal", FirstValue::Kind::kTruncatedNormal},
    {"constant", FirstValue::Kind::kConstant},
    {"preset", FirstValue::Kind::kPreset},
    {"rows", FirstValue::Kind::kRows},
};

/// Rough cost of a column: four of them share a draw, then each takes a quantile.
constexpr int64_t kFirstValueColumnNanoseconds = 8;

/// The random stream of a table under a seed.
uint64_t FirstValueStream(int64_t seed, const std::string& table_name);

/// Writes the first values of `keys` to their rows. kPreset leaves rows unchanged.
void WriteFirstValues(const FirstValue& first_value, int64_t num_keys,
                      const int64_t* keys,     // [num_keys]
                      const int64_t* row_ids,  // [num_keys], or nullptr: row i is key i's
                      int64_t dim,
                      float* rows);  // [more than the largest of row_ids, dim]

}  // namespace sok
