// SPDX-License-Identifier: Apache-2.0
// How an update rounds rows of two bytes: a function of (seed, key, column, step).
#pragma once

#include <cstdint>

#include "ops/base/halves.h"
#include "ops/base/hash.h"

namespace sok {

/// What a table keeps of a row's key, 16 bits: rows of equal salts draw equal numbers in a step,
/// which leaves each one's mean exact.
SOK_HOST_DEVICE inline Bfloat16 SaltOf(int64_t key) {
  return {static_cast<uint16_t>(HashKey(key) >> 48)};
}

/// The drawn numbers of a row in a step; of each of its columns another one.
class RowDraws {
 public:
  static constexpr uint32_t kColumn = 0x9e3779b9u;
  static constexpr uint32_t kMix = 0x2c1b3c6du;

  SOK_HOST_DEVICE SOK_INLINE RowDraws(uint32_t first, bool are_drawn)
      : first_(first), drawn_(are_drawn ? ~0u : 0u) {}

  /// A bijection of the row's first number for each column, so that each column's draws are even;
  /// it is short, as it takes a good part of a step.
  SOK_HOST_DEVICE SOK_INLINE RoundUp At(uint32_t column) const {
    uint32_t word = first_ + column * kColumn;
    word = (word ^ (word >> 15)) * kMix;
    return {(word >> 16) & drawn_, ~drawn_};
  }
  SOK_HOST_DEVICE uint32_t first() const { return first_; }

 private:
  uint32_t first_;
  uint32_t drawn_;  // a mask: all bits, or none to round to nearest
};

/// Rounding of a step. Without salts, to nearest.
struct Rounding {
  const Bfloat16* salts = nullptr;  // of each row; opaque bits in the place of numbers
  uint64_t stream = 0;              // of the seed, the table and the step

  /// From a column on.
  SOK_HOST_DEVICE SOK_INLINE RowDraws OfRow(int64_t row_id, int64_t column = 0) const {
    if (salts == nullptr) return {0, false};
    return Drawn(row_id, column);
  }
  /// As OfRow, with salts.
  SOK_HOST_DEVICE SOK_INLINE RowDraws Drawn(int64_t row_id, int64_t column = 0) const {
    const auto of_row = static_cast<uint32_t>(MixBits(stream ^ salts[row_id].bits));
    return {of_row + static_cast<uint32_t>(column) * RowDraws::kColumn, true};
  }
};

/// Where the random numbers of a table stand.
struct SavedStream {
  uint64_t stream = 0;      // FirstValue::stream
  int64_t num_updates = 0;  // of rows, which updates round stochastically
};

/// `stream` of the step after `num_steps` others.
inline uint64_t RoundingStream(uint64_t of_table, int64_t num_steps) {
  return MixBits(of_table + static_cast<uint64_t>(num_steps) * 0x9e3779b97f4a7c15u);
}

}  // namespace sok
