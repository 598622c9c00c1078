// SPDX-License-Identifier: Apache-2.0
// Conversions of numbers of two bytes, sixteen at a time: the bits of ops/base/halves.h.
#pragma once

#include <cstdint>

#include "ops/cpu/rows/narrow_rows.h"

namespace sok {

// The loops of halves.h take three to four instructions a number with AVX2: a step on rows of
// float16 took twice as long as one on floats (dim 128, in memory, EPYC). AVX-512 selects by masks
// and has instructions that narrow to 16 bits and that widen float16: about one a number.

/// All return how many of the first numbers, of each row, they converted: a multiple of 16, or 0 on
/// a processor without AVX-512. The caller converts the others.
int64_t WidenSixteens(const Float16* from, int64_t count, float* to);
/// As WriteRows, with salts.
int64_t RoundSixteens(const float* floats, int64_t dim, const RowRange& range,
                      const Rounding& rounding, Bfloat16* plane);
int64_t RoundSixteens(const float* floats, int64_t dim, const RowRange& range,
                      const Rounding& rounding, Float16* plane);

}  // namespace sok
