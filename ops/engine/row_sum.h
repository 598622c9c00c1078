// SPDX-License-Identifier: Apache-2.0
// A checksum of a row's contents, by which changed rows are detected.
#ifndef SOK_OPS_ENGINE_ROW_SUM_H_
#define SOK_OPS_ENGINE_ROW_SUM_H_

#include <cstdint>
#include <cstring>

#include "ops/base/host_device.h"

namespace sok {

/// A bijection in each of its arguments. The effect of a bit of the word depends on all of `sum`:
/// with a product alone, the highest bit of the word would change only the highest bit of the
/// result.
SOK_HOST_DEVICE inline uint64_t MixedSum(uint64_t sum, uint64_t word) {
  sum ^= word;
  sum = (sum ^ (sum >> 32)) * 0x9FB21C651E98DF25u;
  sum = (sum ^ (sum >> 29)) * 0xD6E8FEB86659FD93u;
  return sum ^ (sum >> 32);
}

SOK_HOST_DEVICE inline uint64_t WordOfFloats(const float* two) {
  uint32_t low = 0, high = 0;
  std::memcpy(&low, two, sizeof(low));
  std::memcpy(&high, two + 1, sizeof(high));
  return low | (static_cast<uint64_t>(high) << 32);
}

/// Adds the bits of a row to the checksum `sum`; the same on all devices. A change in one pair of
/// columns always changes the result; other changes are missed with a probability of 2^-64.
SOK_HOST_DEVICE inline uint64_t RowSum(uint64_t sum, const float* row, int64_t width) {
  int64_t column = 0;
  if (width >= 16) {  // four independent chains
    uint64_t a = sum, b = 1, c = 2, d = 3;
    for (; column + 8 <= width; column += 8) {
      a = MixedSum(a, WordOfFloats(row + column));
      b = MixedSum(b, WordOfFloats(row + column + 2));
      c = MixedSum(c, WordOfFloats(row + column + 4));
      d = MixedSum(d, WordOfFloats(row + column + 6));
    }
    // Each has a place of its own: a change of one must not look like a change of another.
    sum = MixedSum(MixedSum(MixedSum(MixedSum(a, 0), b), c), d);
  }
  for (; column + 2 <= width; column += 2) sum = MixedSum(sum, WordOfFloats(row + column));
  if (column == width) return sum;
  uint32_t last = 0;
  std::memcpy(&last, row + column, sizeof(last));
  return MixedSum(sum, last);
}

}  // namespace sok

#endif  // SOK_OPS_ENGINE_ROW_SUM_H_
