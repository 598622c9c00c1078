// SPDX-License-Identifier: Apache-2.0
// Fused optimizers against their formulas in double precision.
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "ops/lookup/adagrad.h"
#include "ops/lookup/adam.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

constexpr int64_t kNumRows = 300;
const std::vector<int64_t> kRowIds = {7, 0, 299, 150, 151, 3};

std::vector<float> Random(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(0.1f, 1.0f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

void CheckNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  CHECK_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::abs(actual[i] - expected[i]) > 1e-6f) CHECK_EQ(actual[i], expected[i]);
  }
}

/// Runs `check` for dims with and without a loop of their own, on one thread and on three.
void ForAll(const std::function<void(Executor& executor, int64_t dim)>& check) {
  const auto threads = MakeThreadExecutor(3);
  for (const int64_t dim : {1, 5, 16, 64}) {
    check(SerialExecutor(), dim);
    check(*threads, dim);
  }
}

void CheckAdam(Executor& executor, int64_t dim, bool is_lazy) {
  const AdamStep step{0.01f, 0.9f, 0.999f, 1e-7f};
  std::vector<float> rows = Random(kNumRows * dim, 1);
  std::vector<float> state = Random(kNumRows * dim * 2, 2);
  const auto num_gradients = static_cast<int64_t>(kRowIds.size());
  const std::vector<float> gradients = Random(num_gradients * dim, 3);
  std::vector<float> expected_rows = rows;
  std::vector<float> expected_state = state;
  for (int64_t row = 0; row < kNumRows; ++row) {
    const float* gradient = nullptr;
    for (int64_t i = 0; i < num_gradients; ++i) {
      if (kRowIds[static_cast<size_t>(i)] == row) gradient = gradients.data() + i * dim;
    }
    if (is_lazy && !gradient) continue;
    for (int64_t column = 0; column < dim; ++column) {
      float& m = expected_state[static_cast<size_t>(row * 2 * dim + column)];
      float& v = expected_state[static_cast<size_t>(row * 2 * dim + dim + column)];
      const double g = gradient ? gradient[column] : 0.0;
      m = static_cast<float>(0.9 * m + 0.1 * g);
      v = static_cast<float>(0.999 * v + 0.001 * g * g);
      float& value = expected_rows[static_cast<size_t>(row * dim + column)];
      value = static_cast<float>(value - 0.01 * m / (std::sqrt(static_cast<double>(v)) + 1e-7));
    }
  }
  const AdamPlanes planes{dim, rows.data(), state.data()};
  if (is_lazy) {
    ApplyLazyAdam(executor, step, planes, num_gradients, kRowIds.data(), gradients.data());
  } else {
    ApplyAdam(executor, step, planes, kNumRows, nullptr, num_gradients, kRowIds.data(),
              gradients.data());
  }
  CheckNear(rows, expected_rows);
  CheckNear(state, expected_state);
}

SOK_TEST(LazyAdamMovesTheRowsWithGradients) {
  ForAll([](Executor& executor, int64_t dim) { CheckAdam(executor, dim, true); });
}

SOK_TEST(AdamMovesAllRows) {
  ForAll([](Executor& executor, int64_t dim) { CheckAdam(executor, dim, false); });
}

SOK_TEST(AdamLeavesRowsThatAreNotInUse) {
  constexpr int64_t kDim = 2;
  std::vector<float> rows = Random(kNumRows * kDim, 1);
  std::vector<float> state = Random(kNumRows * kDim * 2, 2);
  const std::vector<float> before = rows;
  const std::vector<int64_t> in_use = {4, 9, 298};
  const std::vector<int64_t> row_ids = {298};
  const std::vector<float> gradients = {1.0f, -1.0f};
  ApplyAdam(SerialExecutor(), {0.01f, 0.9f, 0.999f, 1e-7f}, {kDim, rows.data(), state.data()}, 3,
            in_use.data(), 1, row_ids.data(), gradients.data());
  for (int64_t row = 0; row < kNumRows; ++row) {
    const bool has_moved =
        rows[static_cast<size_t>(row * kDim)] != before[static_cast<size_t>(row * kDim)];
    CHECK_EQ(has_moved, row == 4 || row == 9 || row == 298);
  }
  // m of the row with a gradient: 0.9 of what it was, and 0.1 of the gradient.
  const std::vector<float> state_before = Random(kNumRows * kDim * 2, 2);
  const auto place = static_cast<size_t>(298 * 2 * kDim);
  CHECK_TRUE(std::abs(state[place] - (0.9f * state_before[place] + 0.1f)) < 1e-6f);
}

SOK_TEST(AdagradMovesTheRowsWithGradients) {
  ForAll([](Executor& executor, int64_t dim) {
    std::vector<float> rows = Random(kNumRows * dim, 1);
    std::vector<float> accumulator = Random(kNumRows * dim, 2);
    const auto num_gradients = static_cast<int64_t>(kRowIds.size());
    const std::vector<float> gradients = Random(num_gradients * dim, 3);
    std::vector<float> expected_rows = rows;
    std::vector<float> expected_accumulator = accumulator;
    for (int64_t i = 0; i < num_gradients * dim; ++i) {
      const auto place = static_cast<size_t>(kRowIds[static_cast<size_t>(i / dim)] * dim + i % dim);
      const double g = gradients[static_cast<size_t>(i)];
      expected_accumulator[place] = static_cast<float>(expected_accumulator[place] + g * g);
      expected_rows[place] = static_cast<float>(
          expected_rows[place] -
          0.1 * g / (std::sqrt(static_cast<double>(expected_accumulator[place])) + 1e-7));
    }
    ApplyAdagrad(executor, {0.1f, 1e-7f}, {dim, rows.data(), accumulator.data()}, num_gradients,
                 kRowIds.data(), gradients.data());
    CheckNear(rows, expected_rows);
    CheckNear(accumulator, expected_accumulator);
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
