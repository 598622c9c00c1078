// SPDX-License-Identifier: Apache-2.0
#include "ops/lookup/adagrad.h"

#include <cmath>

#include "ops/base/wide_vectors.h"
#include "ops/lookup/fixed_dim.h"

namespace sok {
namespace {

int64_t RowCost(int64_t dim) { return 10 + dim / 3; }

template <typename Dim>
inline void UpdateRow(AdagradStep step, Dim dim, const float* __restrict gradient,
                      float* __restrict row, float* __restrict accumulator) {
  const int64_t size = dim;
  for (int64_t column = 0; column < size; ++column) {
    const float g = gradient[column];
    accumulator[column] += g * g;
    row[column] -= step.learning_rate * g / (std::sqrt(accumulator[column]) + step.epsilon);
  }
}

template <typename Dim>
SOK_WIDE_VECTORS void UpdateRange(AdagradStep step, Dim dim, AdagradPlanes planes, int64_t begin,
                                  int64_t end, const int64_t* row_ids, const float* gradients) {
  const int64_t size = dim;
  const int64_t ahead = PrefetchDistance(2 * NumLines(size));
  for (int64_t i = begin; i < end; ++i) {
    if (i + ahead < end) {
      PrefetchRow(planes.rows + row_ids[i + ahead] * size, size);
      PrefetchRow(planes.accumulator + row_ids[i + ahead] * size, size);
    }
    const int64_t offset = row_ids[i] * size;
    UpdateRow(step, dim, gradients + i * size, planes.rows + offset, planes.accumulator + offset);
  }
}

}  // namespace

void ApplyAdagrad(Executor& executor, const AdagradStep& step, const AdagradPlanes& planes,
                  int64_t num_gradients, const int64_t* row_ids, const float* gradients) {
  executor.ParallelFor(num_gradients, RowCost(planes.dim), [&](int64_t begin, int64_t end) {
    WithFixedDim(planes.dim,
                 [&](auto dim) { UpdateRange(step, dim, planes, begin, end, row_ids, gradients); });
  });
}

}  // namespace sok
