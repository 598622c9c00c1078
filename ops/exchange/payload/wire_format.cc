// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/payload/wire_format.h"

#include <cstring>

#include "ops/base/error.h"

namespace sok {
namespace {

// No function has a branch, or a selection that could become one, so that compilers vectorize the
// loops.

constexpr uint32_t kSign = 0x80000000u;
constexpr uint32_t kInfinity = 0x7f800000u;

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// left > right ? yes : no; both are below 2^31, so that their difference has the right sign.
uint32_t IfGreater(uint32_t left, uint32_t right, uint32_t yes, uint32_t no) {
  const auto mask = static_cast<uint32_t>(static_cast<int32_t>(right - left) >> 31);
  return no ^ ((yes ^ no) & mask);
}

uint32_t ToBfloat16(uint32_t bits) {
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  return IfGreater(bits & ~kSign, kInfinity, quiet_nan, rounded);
}

uint32_t FromBfloat16(uint32_t half) { return half << 16; }

constexpr uint32_t kLeastNormalHalf = 113u << 23;   // 2^-14, as a float
constexpr uint32_t kFirstBeyondHalf = 0x477ff000u;  // 65,520: rounds beyond the range of float16
constexpr uint32_t kRebiasToHalf = (15u - 127u) << 23;  // added to the exponent; wraps around
// 0.5: adding it to a float below 2^-14 leaves the rounded subnormal float16 in the low bits.
constexpr uint32_t kSubnormalShift = 126u << 23;

bool IsBeyondHalf(uint32_t magnitude) {
  return magnitude >= kFirstBeyondHalf && magnitude < kInfinity;
}

uint32_t ToFloat16(uint32_t bits) {
  const uint32_t sign = (bits & kSign) >> 16;
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t normal = (magnitude + kRebiasToHalf + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t subnormal =
      BitsOf(FloatOf(magnitude) + FloatOf(kSubnormalShift)) - kSubnormalShift;
  const uint32_t quiet_nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t half = IfGreater(kLeastNormalHalf, magnitude, subnormal, normal);
  half = IfGreater(magnitude, kFirstBeyondHalf - 1, 0x7bffu, half);
  half = IfGreater(magnitude, kInfinity - 1, 0x7c00u, half);
  half = IfGreater(magnitude, kInfinity, quiet_nan, half);
  return half | sign;
}

uint32_t FromFloat16(uint32_t half) {
  const uint32_t shifted = (half & 0x7fffu) << 13;
  const uint32_t normal = shifted - kRebiasToHalf;
  const uint32_t infinite = normal + ((128u - 16u) << 23);
  const uint32_t subnormal = BitsOf(FloatOf(normal + (1u << 23)) - FloatOf(kLeastNormalHalf));
  uint32_t magnitude = IfGreater(1u << 23, shifted, subnormal, normal);
  magnitude = IfGreater(shifted, (31u << 23) - 1, infinite, magnitude);
  return magnitude | ((half & 0x8000u) << 16);
}

using Convert = uint32_t (*)(uint32_t);

template <Convert kConvert>
void NarrowEach(const float* from, int64_t count, char* to) {
  for (int64_t i = 0; i < count; ++i) {
    const auto half = static_cast<uint16_t>(kConvert(BitsOf(from[i])));
    std::memcpy(to + i * 2, &half, sizeof(half));
  }
}

template <Convert kConvert>
void WidenEach(const char* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, from + i * 2, sizeof(half));
    to[i] = FloatOf(kConvert(half));
  }
}

int64_t CountBeyondHalf(const float* from, int64_t count) {
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) total += IsBeyondHalf(BitsOf(from[i]) & ~kSign) ? 1 : 0;
  return total;
}

}  // namespace

int64_t Narrow(Element dtype, const float* from, int64_t count, char* to) {
  switch (dtype) {
    case Element::kFloat32:
      if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return 0;
    case Element::kBfloat16:
      NarrowEach<ToBfloat16>(from, count, to);
      return 0;
    case Element::kFloat16:
      NarrowEach<ToFloat16>(from, count, to);
      return CountBeyondHalf(from, count);
  }
  return 0;
}

void Widen(Element dtype, const char* from, int64_t count, float* to) {
  switch (dtype) {
    case Element::kFloat32:
      if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case Element::kBfloat16:
      return WidenEach<FromBfloat16>(from, count, to);
    case Element::kFloat16:
      return WidenEach<FromFloat16>(from, count, to);
  }
}

}  // namespace sok
