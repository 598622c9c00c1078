// SPDX-License-Identifier: Apache-2.0
// Wire formats: every 16-bit pattern, and floats of all magnitudes, compared with slow arithmetic.
#include "ops/exchange/payload/wire_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ops/tests/check.h"

namespace sok {
namespace {

constexpr int kNumPatterns = 1 << 16;
constexpr Element kHalves[] = {Element::kBfloat16, Element::kFloat16};

struct Format {
  int exponent_bits;
  int fraction_bits;
};

Format FormatOf(Element dtype) {
  return dtype == Element::kBfloat16 ? Format{8, 7} : Format{5, 10};
}

/// The value of a pattern, by the definition of the format.
double ValueOf(Element dtype, int pattern) {
  const Format format = FormatOf(dtype);
  const int fraction = pattern & ((1 << format.fraction_bits) - 1);
  const int exponent = (pattern >> format.fraction_bits) & ((1 << format.exponent_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  double value = 0.0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - format.fraction_bits);
  } else {
    value =
        std::ldexp(fraction + (1 << format.fraction_bits), exponent - bias - format.fraction_bits);
  }
  return (pattern >> 15) != 0 ? -value : value;
}

/// The nearest number of the format, ties to even, by arithmetic on doubles.
double Nearest(Element dtype, float value) {
  if (!std::isfinite(value) || value == 0.0f) return value;
  const Format format = FormatOf(dtype);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const double unit = std::ldexp(1.0, exponent - format.fraction_bits);
  const double rounded = std::nearbyint(value / unit) * unit;
  const double most = std::ldexp(2.0 - std::ldexp(1.0, -format.fraction_bits), bias);
  if (std::fabs(rounded) <= most) return rounded;
  const double beyond = dtype == Element::kFloat16 ? most : std::numeric_limits<double>::infinity();
  return std::copysign(beyond, value);
}

bool AreSame(double left, double right) {
  if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && std::isnan(right);
  return left == right && std::signbit(left) == std::signbit(right);
}

std::vector<uint16_t> AllPatterns() {
  std::vector<uint16_t> patterns;
  for (int pattern = 0; pattern < kNumPatterns; ++pattern) {
    patterns.push_back(static_cast<uint16_t>(pattern));
  }
  return patterns;
}

std::vector<float> Widened(Element dtype, const std::vector<uint16_t>& halves) {
  std::vector<float> values(halves.size());
  Widen(dtype, reinterpret_cast<const char*>(halves.data()), static_cast<int64_t>(halves.size()),
        values.data());
  return values;
}

std::vector<uint16_t> Narrowed(Element dtype, const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  Narrow(dtype, values.data(), static_cast<int64_t>(values.size()),
         reinterpret_cast<char*>(halves.data()));
  return halves;
}

SOK_TEST(EveryPatternIsItsNumberAndComesBack) {
  for (const Element dtype : kHalves) {
    const std::vector<float> values = Widened(dtype, AllPatterns());
    const std::vector<uint16_t> back = Narrowed(dtype, values);
    for (int pattern = 0; pattern < kNumPatterns; ++pattern) {
      const auto i = static_cast<size_t>(pattern);
      CHECK_TRUE(AreSame(values[i], ValueOf(dtype, pattern)));
      if (std::isnan(values[i])) {
        CHECK_TRUE(std::isnan(ValueOf(dtype, back[i])));
      } else {
        CHECK_EQ(back[i], pattern);
      }
    }
  }
}

/// All exponents, and the neighbours of representable numbers and of the midpoints between them.
std::vector<float> FloatsOfAllSizes() {
  std::mt19937 random(5);
  std::vector<float> values;
  for (int i = 0; i < 1 << 21; ++i) {
    auto bits = static_cast<uint32_t>(random());
    if (i % 4 == 1) bits &= 0xffffe000u;                    // halves
    if (i % 4 == 2) bits = (bits & 0xffffe000u) | 0x1000u;  // middles of float16
    if (i % 4 == 3) bits = (bits & 0xffff0000u) | 0x8000u;  // middles of bfloat16
    bits += static_cast<uint32_t>(i / 4 % 3) - 1u;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    values.push_back(value);
  }
  for (const float value :
       {65504.0f, 65519.996f, 65520.0f, 65536.0f, 1e38f, 0.0f, 5.9604645e-8f, 2.9802322e-8f,
        2.9802326e-8f, 3.3895314e38f, 3.3961775e38f, std::numeric_limits<float>::max(),
        std::numeric_limits<float>::min(), std::numeric_limits<float>::denorm_min(),
        std::numeric_limits<float>::infinity()}) {
    values.push_back(value);
    values.push_back(-value);
  }
  return values;
}

SOK_TEST(FloatsBecomeTheNearest) {
  const std::vector<float> values = FloatsOfAllSizes();
  for (const Element dtype : kHalves) {
    const std::vector<uint16_t> halves = Narrowed(dtype, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const double nearest = Nearest(dtype, values[i]);
      if (AreSame(ValueOf(dtype, halves[i]), nearest)) continue;
      CHECK_EQ(values[i], nearest);  // prints them
    }
  }
}

SOK_TEST(CountsWhatIsBeyondFloat16) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {65519.0f, 65520.0f,  -1e30f,
                                     infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                                     1.0f};
  std::vector<char> bytes(values.size() * 2);
  const auto count = static_cast<int64_t>(values.size());
  CHECK_EQ(Narrow(Element::kFloat16, values.data(), count, bytes.data()), 2);
  CHECK_EQ(Narrow(Element::kBfloat16, values.data(), count, bytes.data()), 0);
}

SOK_TEST(AnywhereInMemory) {
  const std::vector<float> values = {1.0f, -2.5f, 0.0f, 3.0f, 8.0f};
  for (const Element dtype : {Element::kFloat32, Element::kBfloat16, Element::kFloat16}) {
    const auto count = static_cast<int64_t>(values.size());
    std::vector<char> bytes(static_cast<size_t>(count * ElementBytes(dtype)) + 1);
    Narrow(dtype, values.data(), count, bytes.data() + 1);
    std::vector<float> back(values.size());
    Widen(dtype, bytes.data() + 1, count, back.data());
    CHECK_TRUE(back == values);
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
