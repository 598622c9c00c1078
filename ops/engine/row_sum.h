// SPDX-License-Identifier: Apache-2.0
// A sum of what a row holds, by which one that has changed is told from one that has not.
#ifndef SOK_OPS_ENGINE_ROW_SUM_H_
#define SOK_OPS_ENGINE_ROW_SUM_H_

#include <cstdint>
#include <cstring>

#include "ops/base/host_device.h"

namespace sok {

/// One to one in each of its arguments. What a bit of the word changes depends on all of `sum`: a
/// product alone would change nothing but its highest bit for that of the word.
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

/// Of `sum` and the bits of a row, the same on all devices. A change in one pair of columns always
/// changes it; of other changes, one in 2^64 does not.
SOK_HOST_DEVICE inline uint64_t RowSum(uint64_t sum, const float* row, int64_t width) {
  int64_t column = 0;
  if (width >= 16) {  // four at a time, which need not wait for each other
    uint64_t a = sum, b = 1, c = 2, d = 3;
    for (; column + 8 <= width; column += 8) {
      a = MixedSum(a, WordOfFloats(row + column));
      b = MixedSum(b, WordOfFloats(row + column + 2));
      c = MixedSum(c, WordOfFloats(row + column + 4));
      d = MixedSum(d, WordOfFloats(row + column + 6));
    }
    // No two of them alike: what changes one must not look like a change of another.
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
