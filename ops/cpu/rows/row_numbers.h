// SPDX-License-Identifier: Apache-2.0
// Reads and writes one row, whatever its numbers are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/base/halves.h"
#include "ops/base/wide_vectors.h"
#include "ops/cpu/rows/halves_avx512.h"

namespace sok {

template <typename Number>
inline constexpr bool kIsFloat = std::is_same_v<std::remove_const_t<Number>, float>;
template <typename Number>
inline constexpr bool kIsFloat16 = std::is_same_v<std::remove_const_t<Number>, Float16>;

template <typename Number, typename Dim>
SOK_INLINE void LoadRow(const Number* __restrict from, Dim dim, float* __restrict to) {
  const int64_t size = dim;
  if constexpr (kIsFloat<Number>) {
    std::copy_n(from, size, to);
  } else {
    int64_t column = 0;
    if constexpr (kIsFloat16<Number>) column = WidenSixteens(from, size, to);
    SOK_FOR_COLUMNS
    for (; column < size; ++column) to[column] = Widened(from[column]);
  }
}

/// Rounds to nearest.
template <typename Number, typename Dim>
SOK_INLINE void StoreRow(const float* __restrict from, Dim dim, Number* __restrict to) {
  const int64_t size = dim;
  if constexpr (kIsFloat<Number>) {
    std::copy_n(from, size, to);
  } else {
    SOK_FOR_COLUMNS
    for (int64_t column = 0; column < size; ++column) {
      RoundTo(from[column], kToNearest, to + column);
    }
  }
}

}  // namespace sok
