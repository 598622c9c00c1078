// SPDX-License-Identifier: Apache-2.0
// Adagrad on rows and their accumulators, fused. No table, no communication.
#ifndef SOK_OPS_LOOKUP_ADAGRAD_H_
#define SOK_OPS_LOOKUP_ADAGRAD_H_

#include <cstdint>

#include "ops/base/executor.h"

namespace sok {

struct AdagradStep {
  float learning_rate = 0.0f;
  float epsilon = 0.0f;  // added to sqrt(accumulator); TF1's Adagrad has none
};

struct AdagradPlanes {
  int64_t dim = 0;
  float* rows = nullptr;         // [capacity, dim]
  float* accumulator = nullptr;  // [capacity, dim]
};

/// accumulator += g^2, row -= learning_rate * g / (sqrt(accumulator) + epsilon), for the rows in
/// `row_ids`.
void ApplyAdagrad(Executor& executor, const AdagradStep& step, const AdagradPlanes& planes,
                  int64_t num_gradients,
                  const int64_t* row_ids,   // [num_gradients], distinct
                  const float* gradients);  // [num_gradients, dim]

}  // namespace sok

#endif  // SOK_OPS_LOOKUP_ADAGRAD_H_
