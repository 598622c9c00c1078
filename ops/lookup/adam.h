// SPDX-License-Identifier: Apache-2.0
// Adam on rows and their state, fused: one pass over what changes. No table, no communication.
#ifndef SOK_OPS_LOOKUP_ADAM_H_
#define SOK_OPS_LOOKUP_ADAM_H_

#include <cstdint>

#include "ops/base/executor.h"

namespace sok {

struct AdamStep {
  float step_size = 0.0f;  // learning rate * sqrt(1 - beta2^t) / (1 - beta1^t)
  float beta1 = 0.0f;
  float beta2 = 0.0f;
  float epsilon = 0.0f;  // added to sqrt(v), outside the bias correction
};

/// The memory that Adam works on. One row of `state` holds m, then v.
struct AdamPlanes {
  int64_t dim = 0;
  float* rows = nullptr;   // [capacity, dim]
  float* state = nullptr;  // [capacity, 2 * dim]
};

/// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, row -= step_size * m / (sqrt(v) +
/// epsilon), for the rows in `row_ids` only.
void ApplyLazyAdam(Executor& executor, const AdamStep& step, const AdamPlanes& planes,
                   int64_t num_gradients,
                   const int64_t* row_ids,   // [num_gradients], distinct
                   const float* gradients);  // [num_gradients, dim]

/// As ApplyLazyAdam, but for all rows in use: those not in `row_ids` have a gradient of zero, so
/// their m and v decay and they move too. kInvalidArgument for a gradient of a row not in use.
void ApplyAdam(Executor& executor, const AdamStep& step, const AdamPlanes& planes, int64_t num_rows,
               const int64_t* rows_in_use,  // [num_rows], ascending; nullptr: 0 to num_rows - 1
               int64_t num_gradients,
               const int64_t* row_ids,   // [num_gradients], distinct, all in use
               const float* gradients);  // [num_gradients, dim]

}  // namespace sok

#endif  // SOK_OPS_LOOKUP_ADAM_H_
