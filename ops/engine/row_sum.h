// SPDX-License-Identifier: Apache-2.0
// A checksum of a row's contents, by which changed rows are detected.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

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

template <typename Number>
SOK_HOST_DEVICE inline uint64_t BitsOfNumber(const Number* number) {
  std::conditional_t<sizeof(Number) == 4, uint32_t, uint16_t> bits;
  std::memcpy(&bits, number, sizeof(bits));
  return bits;
}

/// The bits of adjacent numbers of 8 bytes.
template <typename Number>
SOK_HOST_DEVICE inline uint64_t WordOf(const Number* numbers) {
  if constexpr (sizeof(Number) == 4) {
    return BitsOfNumber(numbers) | (BitsOfNumber(numbers + 1) << 32);
  } else {
    return BitsOfNumber(numbers) | (BitsOfNumber(numbers + 1) << 16) |
           (BitsOfNumber(numbers + 2) << 32) | (BitsOfNumber(numbers + 3) << 48);
  }
}

/// Adds the bits of a row to the checksum `sum`; the same on all devices. A change in one pair of
/// columns always changes the result; other changes are missed with a probability of 2^-64.
template <typename Number>
SOK_HOST_DEVICE inline uint64_t RowSum(uint64_t sum, const Number* row, int64_t width) {
  constexpr int64_t kWord = 8 / sizeof(Number);  // numbers
  int64_t column = 0;
  if (width >= 8 * kWord) {  // four independent chains
    uint64_t a = sum, b = 1, c = 2, d = 3;
    for (; column + 4 * kWord <= width; column += 4 * kWord) {
      a = MixedSum(a, WordOf(row + column));
      b = MixedSum(b, WordOf(row + column + kWord));
      c = MixedSum(c, WordOf(row + column + 2 * kWord));
      d = MixedSum(d, WordOf(row + column + 3 * kWord));
    }
    // Each has a place of its own: a change of one must not look like a change of another.
    sum = MixedSum(MixedSum(MixedSum(MixedSum(a, 0), b), c), d);
  }
  for (; column + kWord <= width; column += kWord) sum = MixedSum(sum, WordOf(row + column));
  if (column == width) return sum;
  uint64_t last = 0;  // numbers that are missing are 0
  for (int64_t i = 0; column + i < width; ++i) {
    last |= BitsOfNumber(row + column + i) << (64 / kWord * i);
  }
  return MixedSum(sum, last);
}

}  // namespace sok
