// SPDX-License-Identifier: Apache-2.0
#include "ops/lookup/adagrad.h"

#include <cmath>

#include "ops/lookup/fixed_dim.h"

namespace sok {
namespace {

constexpr int64_t kPrefetchDistance = 8;  // rows; each brings twice dim floats

int64_t RowCost(int64_t dim) { return 10 + dim / 3; }

template <typename Dim>
inline void UpdateRow(const AdagradStep& step, Dim dim, const float* __restrict gradient,
                      float* __restrict row, float* __restrict accumulator) {
  const int64_t size = dim;
  for (int64_t column = 0; column < size; ++column) {
    const float g = gradient[column];
    accumulator[column] += g * g;
    row[column] -= step.learning_rate * g / (std::sqrt(accumulator[column]) + step.epsilon);
  }
}

}  // namespace

void ApplyAdagrad(Executor& executor, const AdagradStep& step, const AdagradPlanes& planes,
                  int64_t num_gradients, const int64_t* row_ids, const float* gradients) {
  const int64_t size = planes.dim;
  executor.ParallelFor(num_gradients, RowCost(size), [&](int64_t begin, int64_t end) {
    WithFixedDim(size, [&](auto dim) {
      for (int64_t i = begin; i < end; ++i) {
        if (i + kPrefetchDistance < end) {
          const int64_t ahead = row_ids[i + kPrefetchDistance] * size;
          PrefetchRow(planes.rows + ahead, size);
          PrefetchRow(planes.accumulator + ahead, size);
        }
        const int64_t offset = row_ids[i] * size;
        UpdateRow(step, dim, gradients + i * size, planes.rows + offset,
                  planes.accumulator + offset);
      }
    });
  });
}

}  // namespace sok
