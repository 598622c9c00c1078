// SPDX-License-Identifier: Apache-2.0
// Stochastic rounding to numbers of two bytes; to nearest: wire_format_test.
#include "ops/base/halves.h"

#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/rows/halves_avx512.h"
#include "ops/engine/rounding.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

template <typename Number>
float Rounded(float value, RoundUp up) {
  Number number;
  RoundTo(value, up, &number);
  return Widened(number);
}

template <typename Test>
void WithBoth(const Test& test) {
  test(Bfloat16{});
  test(Float16{});
}

/// What the rows of 1,000 keys draw in 1,000 steps for one of eight columns.
template <typename Visit>
void ForMillionDraws(const Visit& visit) {
  for (int64_t step = 0; step < 1000; ++step) {
    Rounding rounding;
    rounding.stream = RoundingStream(3, step);
    for (int64_t key = 0; key < 1000; ++key) {
      Bfloat16 salt = SaltOf(key);
      rounding.salts = &salt;
      visit(rounding.OfRow(0).At(static_cast<uint32_t>(step + key) % 8));
    }
  }
}

SOK_TEST(TheMeanOfAMillionRoundingsIsTheNumber) {
  WithBoth([](auto type) {
    using Number = decltype(type);
    for (const float value : {1.0001f, -1.3f, 0.77777f, 3.0e-4f, 1.0e-6f, 7.3e-8f, -60000.1f}) {
      double sum = 0, squares = 0;
      ForMillionDraws([&](RoundUp up) {
        const double error = static_cast<double>(Rounded<Number>(value, up)) - value;
        sum += error;
        squares += error * error;
      });
      const double mean = sum / 1e6;
      const double deviation = std::sqrt(squares / 1e6 / 1e6);
      if (std::fabs(mean) > 4 * deviation) CHECK_EQ(mean, 0.0);  // prints it
    }
  });
}

SOK_TEST(SmallUpdatesOfOneAddUp) {
  WithBoth([](auto type) {
    using Number = decltype(type);
    double sum = 0;
    for (int64_t key = 0; key < 16; ++key) {
      Bfloat16 salt = SaltOf(key);
      float value = 1.0f, nearest = 1.0f;
      for (int64_t step = 0; step < 10'000; ++step) {
        Rounding rounding{&salt, RoundingStream(1, step)};
        value = Rounded<Number>(value + 1e-4f, rounding.OfRow(0).At(2));
        nearest = Nearest<Number>(nearest + 1e-4f);
      }
      sum += value;
      CHECK_EQ(nearest, 1.0f);
    }
    CHECK_TRUE(std::fabs(sum / 16 - 2.0) < 0.05);
  });
}

SOK_TEST(ExactNumbersInfinitiesAndNansStay) {
  WithBoth([](auto type) {
    using Number = decltype(type);
    for (const uint32_t drawn : {0u, 1u, 77u, 0x8000u, 0xffffu}) {
      const RoundUp up{drawn, 0};
      for (int pattern = 0; pattern < 1 << 16; ++pattern) {
        const Number number{static_cast<uint16_t>(pattern)};
        const float value = Widened(number);
        Number rounded;
        RoundTo(value, up, &rounded);
        if (std::isnan(value)) {
          CHECK_TRUE(std::isnan(Widened(rounded)));
        } else {
          CHECK_EQ(rounded.bits, number.bits);
        }
      }
    }
    CHECK_TRUE(std::isnan(Rounded<Number>(std::numeric_limits<float>::quiet_NaN(), {5, 0})));
  });
}

SOK_TEST(NumbersBeyondFloat16StayFinite) {
  for (const float value : {65504.0f, 65519.0f, 65536.0f, 1e38f}) {
    CHECK_EQ(Rounded<Float16>(value, RoundUp{0xffff, 0}), 65504.0f);
    CHECK_EQ(Rounded<Float16>(-value, RoundUp{0, 0}), -65504.0f);
  }
}

/// Where the processor has AVX-512: the bits of the portable functions, for numbers of all kinds.
SOK_TEST(SixteenNumbersAtATimeGiveTheSameBits) {
  WithBoth([](auto type) {
    using Number = decltype(type);
    constexpr int64_t kCount = 53;
    for (uint32_t time = 0; time < 20'000; ++time) {
      std::vector<float> floats;
      for (uint32_t i = 0; i < kCount; ++i) {
        auto bits = static_cast<uint32_t>(MixBits(time * kCount + i));
        if (time % 4 == 1) bits = (bits & 0x807fffffu) | ((96 + bits % 50) << 23);  // of float16
        if (time % 4 == 2) bits |= kFloatInfinity;                                  // NaNs
        if (time % 4 == 3) bits = (bits & kFloatSign) | kFloatInfinity;
        floats.push_back(FloatOf(bits));
      }
      const Bfloat16 salt = SaltOf(time);
      const Rounding rounding{&salt, RoundingStream(5, time)};
      const RowDraws draws = rounding.OfRow(0);
      std::vector<Number> rounded(kCount);
      const int64_t count =
          RoundSixteens(floats.data(), kCount, {nullptr, 0, 1}, rounding, rounded.data());
      for (int64_t i = 0; i < count; ++i) {
        const auto place = static_cast<size_t>(i);
        Number one;
        RoundTo(floats[place], draws.At(static_cast<uint32_t>(i)), &one);
        CHECK_EQ(rounded[place].bits, one.bits);
      }
    }
  });
  std::vector<Float16> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<uint16_t>(i);
  std::vector<float> wide(all.size());
  const int64_t count = WidenSixteens(all.data(), 1 << 16, wide.data());
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    CHECK_EQ(BitsOf(wide[i]), BitsOf(Widened(all[i])));
  }
}

/// A column, a step and a key draw other numbers; the same ones draw the same.
SOK_TEST(DrawsDependOnKeyColumnAndStep) {
  const auto drawn = [](int64_t key, int64_t column, int64_t step) {
    Bfloat16 salt = SaltOf(key);
    Rounding rounding{&salt, RoundingStream(9, step)};
    return rounding.OfRow(0).At(static_cast<uint32_t>(column)).drawn;
  };
  CHECK_EQ(drawn(5, 3, 2), drawn(5, 3, 2));
  int64_t num_equal = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    num_equal += drawn(i, 3, 2) == drawn(i + 1, 3, 2);
    num_equal += drawn(5, i, 2) == drawn(5, i + 1, 2);
    num_equal += drawn(5, 3, i) == drawn(5, 3, i + 1);
  }
  CHECK_TRUE(num_equal <= 3);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
