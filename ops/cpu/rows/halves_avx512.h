// SPDX-License-Identifier: Apache-2.0
// Conversions of numbers of two bytes, sixteen at a time: the bits of ops/base/halves.h.
#ifndef SOK_OPS_CPU_ROWS_HALVES_AVX512_H_
#define SOK_OPS_CPU_ROWS_HALVES_AVX512_H_

#include <cstdint>

#include "ops/base/halves.h"
#include "ops/engine/rounding.h"

namespace sok {

// The loops of halves.h take three to four instructions a number with AVX2: a step on rows of
// float16 took twice as long as one on floats (dim 128, in memory, EPYC). AVX-512 selects by masks
// and has instructions that narrow to 16 bits and that widen float16: about one a number.

/// All return how many of the first numbers they converted: a multiple of 16, or 0 on a processor
/// without AVX-512. The caller converts the others.
int64_t WidenSixteens(const Float16* from, int64_t count, float* to);
/// Column i is rounded by draws.At(i); they must be drawn.
int64_t RoundSixteens(const float* from, int64_t count, const RowDraws& draws, Bfloat16* to);
int64_t RoundSixteens(const float* from, int64_t count, const RowDraws& draws, Float16* to);

}  // namespace sok

#endif  // SOK_OPS_CPU_ROWS_HALVES_AVX512_H_
