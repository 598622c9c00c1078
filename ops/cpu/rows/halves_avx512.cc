// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/rows/halves_avx512.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define SOK_HAS_AVX512_LOOPS
#include <immintrin.h>
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns of its own intrinsics
#endif
#endif

namespace sok {

#ifdef SOK_HAS_AVX512_LOOPS
namespace {

#define SOK_AVX512 __attribute__((target("avx512f")))

constexpr int64_t kLanes = 16;

const bool kHasAvx512 = __builtin_cpu_supports("avx512f") != 0;

int64_t NumToConvert(int64_t count) { return kHasAvx512 ? count / kLanes * kLanes : 0; }

SOK_AVX512 inline __m512i All(uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }

SOK_AVX512 inline __m256i LoadHalves(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

/// RowDraws::At of sixteen columns, whose words before the last step are `words`.
SOK_AVX512 inline __m512i Drawn(__m512i words) {
  const __m512i mixed = _mm512_xor_si512(words, _mm512_srli_epi32(words, 15));
  return _mm512_srli_epi32(_mm512_mullo_epi32(mixed, All(RowDraws::kMix)), 16);
}

SOK_AVX512 inline __m512i Round(__m512i bits, __m512i drawn, Bfloat16) {
  const __m512i magnitude = _mm512_and_si512(bits, All(~kFloatSign));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, drawn), 16);
  const __mmask16 is_nan = _mm512_cmpgt_epu32_mask(magnitude, All(kFloatInfinity));
  return _mm512_mask_or_epi32(rounded, is_nan, _mm512_srli_epi32(bits, 16), All(0x40u));
}

SOK_AVX512 inline __m512i Round(__m512i bits, __m512i drawn, Float16) {
  const __m512i magnitude = _mm512_and_si512(bits, All(~kFloatSign));
  const __m512i fraction = _mm512_srli_epi32(drawn, 3);  // 13 bits
  const __m512i rebiased = _mm512_add_epi32(magnitude, All(kRebiasToHalf));
  const __m512i normal = _mm512_srli_epi32(_mm512_add_epi32(rebiased, fraction), 13);
  const __mmask16 is_small = _mm512_cmplt_epu32_mask(magnitude, All(kLeastNormalHalf));
  const __m512 steps =
      _mm512_mul_ps(_mm512_castsi512_ps(_mm512_maskz_mov_epi32(is_small, magnitude)),
                    _mm512_set1_ps(16777216.0f));
  const __m512 part = _mm512_mul_ps(_mm512_cvtepi32_ps(fraction), _mm512_set1_ps(1.0f / 8192.0f));
  const __m512i subnormal = _mm512_cvttps_epi32(_mm512_add_ps(steps, part));
  __m512i half = _mm512_mask_mov_epi32(normal, is_small, subnormal);
  half = _mm512_min_epu32(half, All(0x7bffu));
  const __mmask16 is_infinite = _mm512_cmpeq_epu32_mask(magnitude, All(kFloatInfinity));
  half = _mm512_mask_mov_epi32(half, is_infinite, All(0x7c00u));
  const __mmask16 is_nan = _mm512_cmpgt_epu32_mask(magnitude, All(kFloatInfinity));
  const __m512i payload = _mm512_and_si512(_mm512_srli_epi32(magnitude, 13), All(0x3ffu));
  half = _mm512_mask_or_epi32(half, is_nan, payload, All(0x7e00u));
  const __m512i sign = _mm512_srli_epi32(_mm512_and_si512(bits, All(kFloatSign)), 16);
  return _mm512_or_si512(half, sign);
}

template <typename Number>
SOK_AVX512 void RoundEach(const float* from, int64_t dim, int64_t count, const RowRange& range,
                          const Rounding& rounding, Number* plane) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i of_lanes = _mm512_mullo_epi32(lanes, All(RowDraws::kColumn));
  const __m512i of_all_lanes = All(uint32_t{kLanes} * RowDraws::kColumn);
  for (int64_t row = range.begin; row < range.end; ++row, from += dim) {
    const int64_t row_id = range.At(row);
    if (row_id < 0) continue;
    __m512i words = _mm512_add_epi32(All(rounding.Drawn(row_id).first()), of_lanes);
    for (int64_t i = 0; i < count; i += kLanes) {
      const __m512i bits = _mm512_loadu_si512(from + i);
      const __m256i halves = _mm512_cvtepi32_epi16(Round(bits, Drawn(words), Number{}));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(plane + row_id * dim + i), halves);
      words = _mm512_add_epi32(words, of_all_lanes);
    }
  }
}

/// The instruction makes signalling NaNs quiet, which Widened does not.
SOK_AVX512 void WidenEach(const Float16* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const __m256i halves = LoadHalves(from + i);
    const __m512i shifted =
        _mm512_slli_epi32(_mm512_and_si512(_mm512_cvtepu16_epi32(halves), All(0x7fffu)), 13);
    const __mmask16 is_nan = _mm512_cmpgt_epu32_mask(shifted, All(31u << 23));
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(halves));
    if (__builtin_expect(is_nan != 0, 0)) {
      for (int64_t lane = i; lane < i + kLanes; ++lane) to[lane] = Widened(from[lane]);
    }
  }
}

template <typename Number>
int64_t RoundRows(const float* floats, int64_t dim, const RowRange& range, const Rounding& rounding,
                  Number* plane) {
  const int64_t count = NumToConvert(dim);
  if (count > 0) RoundEach(floats, dim, count, range, rounding, plane);
  return count;
}

}  // namespace

int64_t WidenSixteens(const Float16* from, int64_t count, float* to) {
  count = NumToConvert(count);
  WidenEach(from, count, to);
  return count;
}
int64_t RoundSixteens(const float* floats, int64_t dim, const RowRange& range,
                      const Rounding& rounding, Bfloat16* plane) {
  return RoundRows(floats, dim, range, rounding, plane);
}
int64_t RoundSixteens(const float* floats, int64_t dim, const RowRange& range,
                      const Rounding& rounding, Float16* plane) {
  return RoundRows(floats, dim, range, rounding, plane);
}
#else
int64_t WidenSixteens(const Float16*, int64_t, float*) { return 0; }
int64_t RoundSixteens(const float*, int64_t, const RowRange&, const Rounding&, Bfloat16*) {
  return 0;
}
int64_t RoundSixteens(const float*, int64_t, const RowRange&, const Rounding&, Float16*) {
  return 0;
}
#endif

}  // namespace sok
