// SPDX-License-Identifier: Apache-2.0
// A queue with scratch memory, and floats to work on.
#ifndef SOK_OPS_TESTS_DEVICE_LOOKUP_FIXTURE_H_
#define SOK_OPS_TESTS_DEVICE_LOOKUP_FIXTURE_H_

#include <cmath>
#include <random>
#include <vector>

#include "ops/tests/device_fixture.h"

namespace sok::testing {

using Floats = std::vector<float>;

struct Fixture : QueueForTests {
  Scratch<TestQueue> scratch{queue};
};

inline Floats Random(int64_t count, uint64_t seed, float low = -1.0f) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(low, 1.0f);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

inline void CheckNear(const Floats& actual, const std::vector<double>& expected) {
  CHECK_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    if (!(error <= 1e-5 * (1.0 + std::abs(expected[i])))) {
      CHECK_EQ(static_cast<double>(actual[i]), expected[i]);
    }
  }
}

}  // namespace sok::testing

#endif  // SOK_OPS_TESTS_DEVICE_LOOKUP_FIXTURE_H_
