// SPDX-License-Identifier: Apache-2.0
// Uses intrinsics because the compiler's own vectorization is slower than none: it replaces the
// multiplications by constants with shifts and additions.
#include "ops/base/philox_lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

#include "ops/base/counter_random.h"

namespace sok {

void PhiloxLanesPlain(const CounterLanes& counters, uint64_t stream, uint32_t* words) {
  for (int i = 0; i < kPhiloxLanes; ++i) {
    const RandomWords lane =
        Philox({{counters.word0[i], counters.word1[i], counters.word2[i], 0}}, stream);
    std::copy_n(lane.word, 4, words + 4 * i);
  }
}

#if defined(__x86_64__)
namespace {

#define SOK_AVX2 __attribute__((target("avx2")))

constexpr int kVectorLanes = 8;

struct Products {
  __m256i high;
  __m256i low;
};

/// The two halves of factor * word in each lane. AVX2 multiplies the even lanes only.
SOK_AVX2 inline Products Multiply(__m256i factor, __m256i words) {
  constexpr int kOddLanes = 0b10101010;
  const __m256i even = _mm256_mul_epu32(factor, words);
  const __m256i odd = _mm256_mul_epu32(factor, _mm256_srli_epi64(words, 32));
  return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, kOddLanes),
          _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), kOddLanes)};
}

SOK_AVX2 inline __m256i Load(const uint32_t* words) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
}

/// Stores two lanes' words: lane i from the lower half, lane i + 4 from the upper half.
SOK_AVX2 inline void StoreLanes(uint32_t* words, int lane, __m256i two_lanes) {
  const auto place = [&](int i) { return reinterpret_cast<__m128i*>(words + 4 * i); };
  _mm_storeu_si128(place(lane), _mm256_castsi256_si128(two_lanes));
  _mm_storeu_si128(place(lane + 4), _mm256_extracti128_si256(two_lanes, 1));
}

SOK_AVX2 inline __m256i Broadcast(uint64_t word) {
  return _mm256_set1_epi32(static_cast<int>(static_cast<uint32_t>(word)));
}

struct Counters {
  __m256i word[4];
};

SOK_AVX2 inline void Round(Counters& counters, __m256i key0, __m256i key1) {
  const Products product0 = Multiply(Broadcast(0xD2511F53u), counters.word[0]);
  const Products product1 = Multiply(Broadcast(0xCD9E8D57u), counters.word[2]);
  counters = {
      {_mm256_xor_si256(_mm256_xor_si256(product1.high, counters.word[1]), key0), product1.low,
       _mm256_xor_si256(_mm256_xor_si256(product0.high, counters.word[3]), key1), product0.low}};
}

/// Transposes, so that the words of each counter are adjacent.
SOK_AVX2 inline void Store(const Counters& counters, uint32_t* words) {
  const __m256i low01 = _mm256_unpacklo_epi32(counters.word[0], counters.word[1]);
  const __m256i low23 = _mm256_unpacklo_epi32(counters.word[2], counters.word[3]);
  const __m256i high01 = _mm256_unpackhi_epi32(counters.word[0], counters.word[1]);
  const __m256i high23 = _mm256_unpackhi_epi32(counters.word[2], counters.word[3]);
  StoreLanes(words, 0, _mm256_unpacklo_epi64(low01, low23));
  StoreLanes(words, 1, _mm256_unpackhi_epi64(low01, low23));
  StoreLanes(words, 2, _mm256_unpacklo_epi64(high01, high23));
  StoreLanes(words, 3, _mm256_unpackhi_epi64(high01, high23));
}

/// Interleaves two vectors, as the multiplications of one depend on each other.
SOK_AVX2 void PhiloxLanesAvx2(const CounterLanes& counters, uint64_t stream, uint32_t* words) {
  static_assert(kPhiloxLanes == 2 * kVectorLanes, "");
  Counters vectors[2];
  for (int i = 0; i < 2; ++i) {
    const int lane = i * kVectorLanes;
    vectors[i] = {{Load(counters.word0 + lane), Load(counters.word1 + lane),
                   Load(counters.word2 + lane), _mm256_setzero_si256()}};
  }
  __m256i key0 = Broadcast(stream);
  __m256i key1 = Broadcast(stream >> 32);
  for (int round = 0; round < 10; ++round) {
    Round(vectors[0], key0, key1);
    Round(vectors[1], key0, key1);
    key0 = _mm256_add_epi32(key0, Broadcast(0x9E3779B9u));
    key1 = _mm256_add_epi32(key1, Broadcast(0xBB67AE85u));
  }
  for (int i = 0; i < 2; ++i) Store(vectors[i], words + i * kVectorLanes * 4);
}

}  // namespace
#endif

void PhiloxLanes(const CounterLanes& counters, uint64_t stream, uint32_t* words) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) {
    PhiloxLanesAvx2(counters, stream, words);
    return;
  }
#endif
  PhiloxLanesPlain(counters, stream, words);
}

}  // namespace sok
