// SPDX-License-Identifier: Apache-2.0
#include "ops/lookup/adam.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/base/error.h"
#include "ops/base/wide_vectors.h"
#include "ops/lookup/fixed_dim.h"

namespace sok {
namespace {

constexpr int32_t kNoGradient = -1;

int64_t RowCost(int64_t dim) { return 12 + dim / 2; }

template <typename Dim>
inline void UpdateRow(AdamStep step, Dim dim, const float* __restrict gradient,
                      float* __restrict row, float* __restrict state) {
  const int64_t size = dim;
  float* m = state;
  float* v = state + size;
  for (int64_t column = 0; column < size; ++column) {
    const float g = gradient[column];
    m[column] = step.beta1 * m[column] + (1.0f - step.beta1) * g;
    v[column] = step.beta2 * v[column] + (1.0f - step.beta2) * (g * g);
    row[column] -= step.step_size * m[column] / (std::sqrt(v[column]) + step.epsilon);
  }
}

template <typename Dim>
inline void DecayRow(AdamStep step, Dim dim, float* __restrict row, float* __restrict state) {
  const int64_t size = dim;
  float* m = state;
  float* v = state + size;
  for (int64_t column = 0; column < size; ++column) {
    m[column] *= step.beta1;
    v[column] *= step.beta2;
    row[column] -= step.step_size * m[column] / (std::sqrt(v[column]) + step.epsilon);
  }
}

template <typename Dim>
SOK_WIDE_VECTORS void UpdateRange(AdamStep step, Dim dim, AdamPlanes planes, int64_t begin,
                                  int64_t end, const int64_t* row_ids, const float* gradients) {
  const int64_t size = dim;
  const int64_t ahead = PrefetchDistance(NumLines(size) + NumLines(2 * size));
  for (int64_t i = begin; i < end; ++i) {
    if (i + ahead < end) {
      PrefetchRow(planes.rows + row_ids[i + ahead] * size, size);
      PrefetchRow(planes.state + row_ids[i + ahead] * 2 * size, 2 * size);
    }
    const int64_t row = row_ids[i];
    UpdateRow(step, dim, gradients + i * size, planes.rows + row * size,
              planes.state + row * 2 * size);
  }
}

/// Moves the rows at the places [begin, end); `rows_in_use` as in ApplyAdam.
template <typename Dim>
SOK_WIDE_VECTORS void MoveRange(AdamStep step, Dim dim, AdamPlanes planes, int64_t begin,
                                int64_t end, const int64_t* rows_in_use, const int32_t* gradient_of,
                                const float* gradients) {
  const int64_t size = dim;
  for (int64_t place = begin; place < end; ++place) {
    const int64_t row = rows_in_use ? rows_in_use[place] : place;
    const int64_t gradient = gradient_of[place];
    float* values = planes.rows + row * size;
    float* state = planes.state + row * 2 * size;
    if (gradient == kNoGradient) {
      DecayRow(step, dim, values, state);
    } else {
      UpdateRow(step, dim, gradients + gradient * size, values, state);
    }
  }
}

}  // namespace

void ApplyLazyAdam(Executor& executor, const AdamStep& step, const AdamPlanes& planes,
                   int64_t num_gradients, const int64_t* row_ids, const float* gradients) {
  executor.ParallelFor(num_gradients, RowCost(planes.dim), [&](int64_t begin, int64_t end) {
    WithFixedDim(planes.dim,
                 [&](auto dim) { UpdateRange(step, dim, planes, begin, end, row_ids, gradients); });
  });
}

void ApplyAdam(Executor& executor, const AdamStep& step, const AdamPlanes& planes, int64_t num_rows,
               const int64_t* rows_in_use, int64_t num_gradients, const int64_t* row_ids,
               const float* gradients) {
  std::vector<int32_t> gradient_of(static_cast<size_t>(num_rows), kNoGradient);  // by place
  for (int64_t i = 0; i < num_gradients; ++i) {
    const int64_t place =
        rows_in_use
            ? std::lower_bound(rows_in_use, rows_in_use + num_rows, row_ids[i]) - rows_in_use
            : row_ids[i];
    if (place >= num_rows || (rows_in_use && rows_in_use[place] != row_ids[i])) {
      Throw(ErrorCode::kInvalidArgument, "gradient for row ", row_ids[i],
            ", which is not in use; was the table emptied during the step?");
    }
    gradient_of[static_cast<size_t>(place)] = static_cast<int32_t>(i);
  }
  executor.ParallelFor(num_rows, RowCost(planes.dim), [&](int64_t begin, int64_t end) {
    WithFixedDim(planes.dim, [&](auto dim) {
      MoveRange(step, dim, planes, begin, end, rows_in_use, gradient_of.data(), gradients);
    });
  });
}

}  // namespace sok
