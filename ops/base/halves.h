// SPDX-License-Identifier: Apache-2.0
// Numbers of two bytes: bfloat16 and float16, from and to float32. The same bits on all devices.
#pragma once

#include <cstdint>
#include <cstring>

#include "ops/base/host_device.h"
#include "ops/base/wide_vectors.h"

namespace sok {

// No function has a branch, or a selection that could become one, so that compilers vectorize the
// loops that call them.

#define SOK_HALVES SOK_HOST_DEVICE SOK_INLINE

struct Bfloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

SOK_HALVES uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
SOK_HALVES float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// left > right ? yes : no; both are below 2^31, so that their difference has the right sign.
SOK_HALVES uint32_t IfGreater(uint32_t left, uint32_t right, uint32_t yes, uint32_t no) {
  const auto mask = static_cast<uint32_t>(static_cast<int32_t>(right - left) >> 31);
  return no ^ ((yes ^ no) & mask);
}

constexpr uint32_t kFloatSign = 0x80000000u;
constexpr uint32_t kFloatInfinity = 0x7f800000u;
constexpr uint32_t kLeastNormalHalf = 113u << 23;       // 2^-14, as a float
constexpr uint32_t kFirstBeyondHalf = 0x477ff000u;      // 65,520: nearest is beyond float16
constexpr uint32_t kRebiasToHalf = (15u - 127u) << 23;  // added to the exponent; wraps around

/// What is added to the bits that rounding cuts off, of 16 bits: half of their range, so that the
/// nearest number results, or any, drawn evenly: then each of the two neighbours results with the
/// probability that makes the mean exact. Exact values, infinities and NaNs stay in either case.
struct RoundUp {
  uint32_t drawn;    // in [0, 2^16); 0 to round to nearest
  uint32_t nearest;  // ~0u to round to nearest, ties to even; else 0

  /// To add before the lowest `kBits` bits are cut off.
  template <int kBits>
  SOK_HALVES uint32_t Of(uint32_t bits) const {
    const uint32_t half = (1u << (kBits - 1)) - 1 + ((bits >> kBits) & 1u);
    return (drawn >> (16 - kBits)) | (half & nearest);
  }
};

constexpr RoundUp kToNearest{0, ~0u};

SOK_HALVES void RoundTo(float value, RoundUp up, float* to) {
  (void)up;
  *to = value;
}
/// A number beyond the largest bfloat16 becomes it or infinity.
SOK_HALVES void RoundTo(float value, RoundUp up, Bfloat16* to) {
  const uint32_t bits = BitsOf(value);
  const uint32_t rounded = (bits + up.Of<16>(bits)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  to->bits =
      static_cast<uint16_t>(IfGreater(bits & ~kFloatSign, kFloatInfinity, quiet_nan, rounded));
}
/// A finite number beyond the largest float16, 65,504, becomes it.
SOK_HALVES void RoundTo(float value, RoundUp up, Float16* to) {
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & ~kFloatSign;
  const uint32_t normal = (magnitude + kRebiasToHalf + up.Of<13>(magnitude)) >> 13;
  // Below 2^-14 float16 has steps of 2^-24. A float of that many steps, below 2^10, takes a drawn
  // fraction of 13 bits without rounding the sum of a whole number; adding 2^23 rounds to nearest.
  const uint32_t small = IfGreater(kLeastNormalHalf, magnitude, magnitude, 0);
  const float steps = FloatOf(small) * 16777216.0f;
  const float fraction = static_cast<float>(static_cast<int32_t>(up.drawn >> 3)) / 8192.0f;
  const uint32_t nearest = BitsOf(steps + 8388608.0f) & 0x7fffu;
  const auto drawn = static_cast<uint32_t>(static_cast<int32_t>(steps + fraction));
  const uint32_t subnormal = (nearest & up.nearest) | (drawn & ~up.nearest);
  const uint32_t quiet_nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t half = IfGreater(kLeastNormalHalf, magnitude, subnormal, normal);
  half = IfGreater(half, 0x7bffu, 0x7bffu, half);  // drawn, 65,504 and more
  half = IfGreater(magnitude, kFirstBeyondHalf - 1, 0x7bffu, half);
  half = IfGreater(magnitude, kFloatInfinity - 1, 0x7c00u, half);
  half = IfGreater(magnitude, kFloatInfinity, quiet_nan, half);
  to->bits = static_cast<uint16_t>(half | ((bits & kFloatSign) >> 16));
}

/// Whether RoundTo(Float16) has to clamp.
SOK_HALVES bool IsBeyondHalf(float value) {
  const uint32_t magnitude = BitsOf(value) & ~kFloatSign;
  return magnitude >= kFirstBeyondHalf && magnitude < kFloatInfinity;
}

SOK_HALVES float Widened(float value) { return value; }
SOK_HALVES float Widened(Bfloat16 value) { return FloatOf(uint32_t{value.bits} << 16); }
SOK_HALVES float Widened(Float16 value) {
  const uint32_t shifted = (value.bits & 0x7fffu) << 13;
  const uint32_t normal = shifted - kRebiasToHalf;
  const uint32_t infinite = normal + ((128u - 16u) << 23);
  const uint32_t subnormal = BitsOf(FloatOf(normal + (1u << 23)) - FloatOf(kLeastNormalHalf));
  uint32_t magnitude = IfGreater(1u << 23, shifted, subnormal, normal);
  magnitude = IfGreater(shifted, (31u << 23) - 1, infinite, magnitude);
  return FloatOf(magnitude | ((value.bits & 0x8000u) << 16));
}

/// value, as it is after a round trip through a Number.
template <typename Number>
SOK_HALVES float Nearest(float value) {
  Number number;
  RoundTo(value, kToNearest, &number);
  return Widened(number);
}

}  // namespace sok
