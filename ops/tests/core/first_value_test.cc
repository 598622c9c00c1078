// SPDX-License-Identifier: Apache-2.0
// First values: pinned numbers, distributions, and independence of everything but their definition.
#include "ops/engine/first_value.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/base/counter_random.h"
#include "ops/base/philox_lanes.h"
#include "ops/tests/check.h"
#include "ops/tests/conformance/first_value_of_key.h"

namespace sok {
namespace {

using Kind = FirstValue::Kind;

std::vector<float> Row(const FirstValue& first_value, int64_t key, int64_t dim) {
  std::vector<float> row(static_cast<size_t>(dim), -99.0f);
  WriteFirstValue(first_value, key, dim, row.data());
  return row;
}

void CheckWords(RandomWords actual, RandomWords expected) {
  for (int i = 0; i < 4; ++i) CHECK_EQ(actual.word[i], expected.word[i]);
}

SOK_TEST(PhiloxKnownAnswers) {  // from the Random123 distribution's known-answer tests
  CheckWords(Philox({{0, 0, 0, 0}}, 0), {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  CheckWords(Philox({{~0u, ~0u, ~0u, ~0u}}, ~uint64_t{0}),
             {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  CheckWords(Philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822),
             {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

SOK_TEST(PhiloxLanesArePhilox) {
  CounterLanes counters;
  uint32_t bits = 1;
  for (int i = 0; i < kPhiloxLanes; ++i) {
    for (uint32_t* word : {counters.word0, counters.word1, counters.word2}) {
      word[i] = bits = bits * 1664525u + 1013904223u;
    }
  }
  for (const uint64_t stream : {uint64_t{0}, ~uint64_t{0}, uint64_t{0x299f31d0a4093822}}) {
    std::vector<uint32_t> plain(4 * kPhiloxLanes);
    std::vector<uint32_t> fast(4 * kPhiloxLanes);
    PhiloxLanesPlain(counters, stream, plain.data());
    PhiloxLanes(counters, stream, fast.data());
    CHECK_TRUE(fast == plain);
    CheckWords(Philox({{counters.word0[5], counters.word1[5], counters.word2[5], 0}}, stream),
               {{fast[20], fast[21], fast[22], fast[23]}});
  }
}

SOK_TEST(ManyRowsAreEachAsOne) {
  for (const Kind kind : {Kind::kUniform, Kind::kNormal, Kind::kTruncatedNormal, Kind::kConstant}) {
    const FirstValue first_value{kind, -0.5f, 2.0f, FirstValueStream(7, "user")};
    for (const int64_t dim : {1, 3, 4, 16, 70}) {
      const std::vector<int64_t> keys = {5, -1, INT64_MIN, INT64_MAX, 1 << 20, 0, 9};
      const std::vector<int64_t> row_ids = {6, 0, 5, 2, 3, 1, 7};  // row 4 stays unchanged
      std::vector<float> rows(static_cast<size_t>(8 * dim), -99.0f);
      const auto num_keys = static_cast<int64_t>(keys.size());
      WriteFirstValues(first_value, num_keys, keys.data(), row_ids.data(), dim, rows.data());
      const auto row = [&](int64_t i) {
        return std::vector<float>(rows.begin() + i * dim, rows.begin() + (i + 1) * dim);
      };
      for (size_t i = 0; i < keys.size(); ++i) {
        CHECK_TRUE(row(row_ids[i]) == Row(first_value, keys[i], dim));
      }
      CHECK_TRUE(row(4) == std::vector<float>(static_cast<size_t>(dim), -99.0f));
      WriteFirstValues(first_value, num_keys, keys.data(), nullptr, dim, rows.data());
      CHECK_TRUE(row(1) == Row(first_value, keys[1], dim));
    }
  }
}

SOK_TEST(KeysOfAPeriodStartAsOneKey) {
  for (const Kind kind : {Kind::kUniform, Kind::kNormal, Kind::kTruncatedNormal, Kind::kConstant}) {
    const FirstValue of_all{kind, -0.5f, 2.0f, FirstValueStream(7, "user")};
    const std::vector<int64_t> keys = {5, 12, -2, INT64_MIN, INT64_MAX, 0, -7};
    const std::vector<int64_t> same = {5, 5, 5, 6, 0, 0, 0};  // floormod(key, 7)
    for (const int64_t dim : {1, 6}) {
      FirstValue first_value = of_all;
      first_value.period = 7;
      const auto num_keys = static_cast<int64_t>(keys.size());
      std::vector<float> rows(static_cast<size_t>(num_keys * dim));
      WriteFirstValues(first_value, num_keys, keys.data(), nullptr, dim, rows.data());
      for (size_t i = 0; i < keys.size(); ++i) {
        const std::vector<float> expected = Row(of_all, same[i], dim);
        CHECK_TRUE(Row(first_value, keys[i], dim) == expected);
        CHECK_TRUE(std::equal(expected.begin(), expected.end(),
                              rows.begin() + static_cast<int64_t>(i) * dim));
      }
      first_value.period = INT64_MAX;
      CHECK_TRUE(Row(first_value, 5, dim) == Row(of_all, 5, dim));
    }
  }
}

SOK_TEST(RowsThatAreGivenRepeat) {
  std::vector<float> given = {1, 2, 3, 4, 5, 6};
  FirstValue first_value{Kind::kRows, 0.0f, 0.0f, 0, 3};
  first_value.rows = given.data();
  const std::vector<int64_t> keys = {0, -1, 4, INT64_MIN, INT64_MAX};  // INT64_MIN % 3 is 1
  const std::vector<int64_t> row_ids = {5, 0, 2, 1, 4};                // row 3 stays unchanged
  std::vector<float> rows(12, -99.0f);
  WriteFirstValues(first_value, 5, keys.data(), row_ids.data(), 2, rows.data());
  CHECK_TRUE(rows == (std::vector<float>{5, 6, 3, 4, 3, 4, -99, -99, 3, 4, 1, 2}));
}

SOK_TEST(PortableLogIsLog) {
  for (double x = 1e-12; x < 1e3; x *= 1.0001) {
    CHECK_TRUE(std::abs(PortableLog(x) - std::log(x)) <= 1e-12 * (1 + std::abs(std::log(x))));
  }
  CHECK_EQ(PortableLog(1.0), 0.0);
}

SOK_TEST(NormalQuantileInvertsTheDistribution) {
  for (double p = 1e-10; p < 1.0; p = p < 0.01 ? p * 1.01 : p + 0.0001) {
    const double below = 0.5 * std::erfc(-NormalQuantile(p) / std::sqrt(2.0));
    CHECK_TRUE(std::abs(below - p) <= 1e-5 * p);
  }
}

SOK_TEST(StreamsDependOnSeedAndName) {
  // A change of these numbers changes every model that is trained from scratch.
  CHECK_EQ(FirstValueStream(7, "user"), uint64_t{0x751ac3fdca8f042e});
  CHECK_EQ(FirstValueStream(-1, ""), uint64_t{0x51598c8ac0b31554});
  CHECK_TRUE(FirstValueStream(7, "item") != FirstValueStream(7, "user"));
  CHECK_TRUE(FirstValueStream(8, "user") != FirstValueStream(7, "user"));
}

SOK_TEST(PinnedValues) {
  // Computed by an independent program from the definitions.
  const std::vector<double> uniform = {0.3397366404533386,    0.40933024883270264,
                                       -0.016021013259887695, 0.1054641604423523,
                                       0.2698812484741211,    0.2235814929008484};
  const std::vector<double> normal = {2.9867524268640313, 3.673284199228098, 0.9196610088460283,
                                      1.5350326421410647, 2.476911741663959, 2.187028861497417};
  const std::vector<double> truncated = {0.9317942519476896,   1.2302893814000964,
                                         -0.03834085569063455, 0.25507011565172394,
                                         0.6986083702654758,   0.5633699926805175};
  const uint64_t stream = FirstValueStream(7, "user");
  const auto check = [&](const FirstValue& first_value, const std::vector<double>& expected) {
    const std::vector<float> row = Row(first_value, -3, 6);
    for (size_t i = 0; i < row.size(); ++i) CHECK_TRUE(std::abs(row[i] - expected[i]) < 5e-7);
  };
  check({Kind::kUniform, -0.5f, 0.5f, stream}, uniform);
  check({Kind::kNormal, 1.0f, 2.0f, stream}, normal);
  check({Kind::kTruncatedNormal, 0.0f, 1.0f, stream}, truncated);
  check({Kind::kConstant, 0.25f, 9.0f, stream}, std::vector<double>(6, 0.25));
  check({Kind::kPreset, 0.25f, 9.0f, stream}, std::vector<double>(6, -99.0));
}

SOK_TEST(APrefixOfTheColumnsIsTheSame) {
  const FirstValue first_value{Kind::kNormal, 0.0f, 1.0f, 5};
  const std::vector<float> wide = Row(first_value, 77, 19);
  for (int64_t dim = 1; dim < 19; ++dim) {
    const std::vector<float> row = Row(first_value, 77, dim);
    CHECK_TRUE(std::equal(row.begin(), row.end(), wide.begin()));
  }
}

struct Moments {
  double mean, variance, skew, kurtosis, low, high;
};

/// Over 4 columns of 250,000 keys, half of them negative, each moment about 0.1 % exact.
Moments MomentsOf(const FirstValue& first_value) {
  std::vector<double> values;
  for (int64_t key = -125'000; key < 125'000; ++key) {
    for (const float value : Row(first_value, key, 4)) values.push_back(value);
  }
  const auto average = [&](auto term) {
    double sum = 0;
    for (const double value : values) sum += term(value);
    return sum / static_cast<double>(values.size());
  };
  const double mean = average([](double x) { return x; });
  const auto central = [&](int power) {
    return average([&](double x) { return std::pow(x - mean, power); });
  };
  const double variance = central(2);
  return {mean,
          variance,
          central(3) / std::pow(variance, 1.5),
          central(4) / (variance * variance),
          *std::min_element(values.begin(), values.end()),
          *std::max_element(values.begin(), values.end())};
}

void CheckNear(double actual, double expected, double tolerance) {
  if (std::abs(actual - expected) > tolerance) CHECK_EQ(actual, expected);
}

SOK_TEST(UniformMoments) {
  const Moments moments = MomentsOf({Kind::kUniform, -1.0f, 3.0f, 11});
  CheckNear(moments.mean, 1.0, 0.005);
  CheckNear(moments.variance, 16.0 / 12.0, 0.005);
  CheckNear(moments.skew, 0.0, 0.01);
  CheckNear(moments.kurtosis, 1.8, 0.01);
  CHECK_TRUE(moments.low >= -1.0 && moments.low < -0.999);
  CHECK_TRUE(moments.high < 3.0 && moments.high > 2.999);
}

SOK_TEST(NormalMoments) {
  const Moments moments = MomentsOf({Kind::kNormal, 2.0f, 0.5f, 12});
  CheckNear(moments.mean, 2.0, 0.003);
  CheckNear(moments.variance, 0.25, 0.002);
  CheckNear(moments.skew, 0.0, 0.01);
  CheckNear(moments.kurtosis, 3.0, 0.03);
  CHECK_TRUE(moments.high > 2.0 + 0.5 * 4.2);
}

SOK_TEST(TruncatedNormalMoments) {
  const Moments moments = MomentsOf({Kind::kTruncatedNormal, 2.0f, 0.5f, 13});
  CheckNear(moments.mean, 2.0, 0.003);
  CheckNear(moments.variance, 0.25 * 0.7737, 0.002);  // of a normal cut at two deviations
  CheckNear(moments.skew, 0.0, 0.01);
  CHECK_TRUE(moments.low >= 1.0 && moments.low < 1.001);
  CHECK_TRUE(moments.high <= 3.0 && moments.high > 2.999);
}

SOK_TEST(KeysColumnsAndStreamsAreIndependent) {
  const auto correlation = [](auto left, auto right) {
    double sum = 0;
    for (int64_t key = 0; key < 200'000; ++key) sum += left(key) * right(key);
    return sum / 200'000;
  };
  const auto value = [](uint64_t stream, int64_t key, size_t column) {
    return double{Row({Kind::kNormal, 0.0f, 1.0f, stream}, key, 6)[column]};
  };
  const auto self = [&](int64_t key) { return value(1, key, 0); };
  CheckNear(correlation(self, [&](int64_t key) { return value(1, key, 1); }), 0, 0.01);
  CheckNear(correlation(self, [&](int64_t key) { return value(1, key, 4); }), 0, 0.01);
  CheckNear(correlation(self, [&](int64_t key) { return value(1, key + 1, 0); }), 0, 0.01);
  CheckNear(correlation(self, [&](int64_t key) { return value(1, -key, 0); }), 0, 0.02);
  CheckNear(correlation(self, [&](int64_t key) { return value(2, key, 0); }), 0, 0.01);
}

SOK_TEST(UniformStaysBelowItsEnd) {
  // 1 + (1 - 2^-24) rounds to 2 in floats.
  CHECK_EQ(UniformFloat(~0u, 1.0f, 2.0f), 1.0f);
  CHECK_EQ(UniformFloat(~0u, 3.0f, 3.0f), 3.0f);
  CHECK_EQ(UniformFloat(0, -1.0f, 2.0f), -1.0f);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
