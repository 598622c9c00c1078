// SPDX-License-Identifier: Apache-2.0
// Fused optimizers on a queue: the CPU's bits, or their formulas in double precision.
#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/device/optimizers.h"
#include "ops/tests/device_lookup_fixture.h"

namespace sok {
namespace {

using testing::CheckNear;
using testing::DeviceArray;
using testing::Fixture;
using testing::Floats;
using testing::Ids;
using testing::Random;
using testing::Size;
using testing::TestQueue;

constexpr int64_t kNumRows = 300;
const Ids kRowIds = {7, 0, 299, kNoRow, 150, 151, 3};

/// Applies `apply` on the device and `expect` on the host to the same planes, and compares bits.
void CheckOptimizer(int64_t num_states,
                    const std::function<void(Fixture&, const OptimizerPlanes&, const int64_t*,
                                             const float*)>& apply,
                    const std::function<void(int64_t dim, float* rows, float* state,
                                             const float* gradients)>& expect) {
  for (const int64_t dim : {1, 6, 16}) {
    Fixture fixture;
    Floats rows = Random(kNumRows * dim, 1, 0.1f);
    Floats state = Random(kNumRows * dim * num_states, 2, 0.1f);
    const Floats gradients = Random(Size(kRowIds) * dim, 3);
    const DeviceArray<float> device_rows(fixture.queue, rows);
    const DeviceArray<float> device_state(fixture.queue, state);
    const DeviceArray<float> device_gradients(fixture.queue, gradients);
    const DeviceArray<int64_t> device_row_ids(fixture.queue, kRowIds);
    {
      const QueueCall<TestQueue> call(fixture.queue, {});
      apply(fixture, {dim, device_rows.data(), device_state.data()}, device_row_ids.data(),
            device_gradients.data());
    }
    expect(dim, rows.data(), state.data(), gradients.data());
    CHECK_TRUE(device_rows.ToHost() == rows);
    CHECK_TRUE(device_state.ToHost() == state);
  }
}

/// kRowIds and their gradients without the place that has no row.
struct HeldGradients {
  HeldGradients(int64_t dim, const float* all) {
    for (size_t i = 0; i < kRowIds.size(); ++i) {
      if (kRowIds[i] < 0) continue;
      row_ids.push_back(kRowIds[i]);
      gradients.insert(gradients.end(), all + static_cast<int64_t>(i) * dim,
                       all + static_cast<int64_t>(i + 1) * dim);
    }
  }

  Ids row_ids;
  Floats gradients;
};

/// The number of gradients may stand on the device, as that of distinct keys does.
SOK_TEST(GradientsBeyondTheCountOnTheDeviceAreNotApplied) {
  constexpr int64_t kDim = 6;
  constexpr int32_t kCount = 3;
  Fixture fixture;
  Floats rows = Random(kNumRows * kDim, 1);
  const Floats gradients = Random(Size(kRowIds) * kDim, 3);
  const DeviceArray<float> device_rows(fixture.queue, rows);
  const DeviceArray<float> device_gradients(fixture.queue, gradients);
  const DeviceArray<int64_t> row_ids(fixture.queue, kRowIds);
  const DeviceArray<int32_t> count(fixture.queue, std::vector<int32_t>{kCount});
  {
    const QueueCall<TestQueue> call(fixture.queue, {});
    ApplyToRows(fixture.queue, SgdRule{0.1f}, {kDim, device_rows.data(), nullptr},
                Count(Size(kRowIds), count.data()), row_ids.data(), device_gradients.data());
  }
  for (int64_t i = 0; i < kCount * kDim; ++i) {
    rows[static_cast<size_t>(kRowIds[static_cast<size_t>(i / kDim)] * kDim + i % kDim)] -=
        0.1f * gradients[static_cast<size_t>(i)];
  }
  CHECK_TRUE(device_rows.ToHost() == rows);
}

SOK_TEST(OptimizersMoveRowsAsOnTheCpu) {
  const int64_t count = Size(kRowIds);
  const AdamStep adam{0.01f, 0.9f, 0.999f, 1e-7f};
  const AdagradStep adagrad{0.1f, 1e-7f};
  CheckOptimizer(
      2,
      [&](Fixture& fixture, const OptimizerPlanes& planes, const int64_t* ids, const float* g) {
        ApplyToRows(fixture.queue, AdamRule{adam}, planes, count, ids, g);
      },
      [&](int64_t dim, float* rows, float* state, const float* g) {
        const HeldGradients held(dim, g);
        ApplyLazyAdam(SerialExecutor(), adam, {dim, rows, state}, Size(held.row_ids),
                      held.row_ids.data(), held.gradients.data());
      });
  CheckOptimizer(
      2,
      [&](Fixture& fixture, const OptimizerPlanes& planes, const int64_t* ids, const float* g) {
        const Scratch<TestQueue>::Frame frame(fixture.scratch);
        ApplyAdamToAllRows(fixture.queue, adam, planes, kNumRows, count, ids, g,
                           fixture.scratch.Take<unsigned char>(kNumRows));
      },
      [&](int64_t dim, float* rows, float* state, const float* g) {
        const HeldGradients held(dim, g);
        ApplyAdam(SerialExecutor(), adam, {dim, rows, state}, kNumRows, nullptr, Size(held.row_ids),
                  held.row_ids.data(), held.gradients.data());
      });
  CheckOptimizer(
      1,
      [&](Fixture& fixture, const OptimizerPlanes& planes, const int64_t* ids, const float* g) {
        ApplyToRows(fixture.queue, AdagradRule{adagrad}, planes, count, ids, g);
      },
      [&](int64_t dim, float* rows, float* state, const float* g) {
        const HeldGradients held(dim, g);
        ApplyAdagrad(SerialExecutor(), adagrad, {dim, rows, state}, Size(held.row_ids),
                     held.row_ids.data(), held.gradients.data());
      });
  CheckOptimizer(
      0,
      [&](Fixture& fixture, const OptimizerPlanes& planes, const int64_t* ids, const float* g) {
        ApplyToRows(fixture.queue, SgdRule{0.1f}, planes, count, ids, g);
      },
      [&](int64_t dim, float* rows, float*, const float* g) {
        for (int64_t i = 0; i < count * dim; ++i) {
          const int64_t row = kRowIds[static_cast<size_t>(i / dim)];
          if (row >= 0) rows[row * dim + i % dim] -= 0.1f * g[i];
        }
      });
}

/// The formulas of TensorFlow's ApplyFtrlV2 in double precision.
SOK_TEST(FtrlFollowsItsFormulas) {
  constexpr double kRate = 0.1;
  constexpr double kL1 = 0.3;
  constexpr double kL2 = 0.02;
  constexpr double kShrinkage = 0.01;
  constexpr int64_t kDim = 4;
  Fixture fixture;
  const Floats rows = Random(kNumRows * kDim, 1);
  const Floats state = Random(kNumRows * kDim * 2, 2, 0.1f);
  const Floats gradients = Random(Size(kRowIds) * kDim, 3);
  std::vector<double> expected(rows.begin(), rows.end());
  std::vector<double> expected_state(state.begin(), state.end());
  for (size_t i = 0; i < gradients.size(); ++i) {
    const int64_t row = kRowIds[i / kDim];
    const auto column = static_cast<int64_t>(i) % kDim;
    if (row < 0) continue;
    double& value = expected[static_cast<size_t>(row * kDim + column)];
    double& sum = expected_state[static_cast<size_t>(row * 2 * kDim + column)];
    double& linear = expected_state[static_cast<size_t>(row * 2 * kDim + kDim + column)];
    const double g = gradients[i];
    const double new_sum = sum + g * g;
    const double sigma = (std::sqrt(new_sum) - std::sqrt(sum)) / kRate;
    linear += g + 2 * kShrinkage * value - sigma * value;
    sum = new_sum;
    const double clipped = std::max(-kL1, std::min(kL1, linear));
    value = (clipped - linear) / (std::sqrt(sum) / kRate + 2 * kL2);
  }
  const DeviceArray<float> device_rows(fixture.queue, rows);
  const DeviceArray<float> device_state(fixture.queue, state);
  const DeviceArray<float> device_gradients(fixture.queue, gradients);
  const DeviceArray<int64_t> row_ids(fixture.queue, kRowIds);
  {
    const QueueCall<TestQueue> call(fixture.queue, {});
    ApplyToRows(fixture.queue, FtrlRule{0.1f, 0.3f, 0.02f, 0.01f},
                {kDim, device_rows.data(), device_state.data()}, Size(kRowIds), row_ids.data(),
                device_gradients.data());
  }
  CheckNear(device_rows.ToHost(), expected);
  CheckNear(device_state.ToHost(), expected_state);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
