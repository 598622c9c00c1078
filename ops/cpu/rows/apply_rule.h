// SPDX-License-Identifier: Apache-2.0
// Optimizer rules on rows and their states, fused into one pass. No table.
#pragma once

#include <cstdint>

#include "ops/base/threads/executor.h"
#include "ops/engine/rules.h"

namespace sok {

/// Applies `rule` to the rows in `row_ids`; ids below 0 are skipped.
void ApplyToRows(Executor& executor, const Rule& rule, const RulePlanes& planes,
                 int64_t num_gradients,
                 const int64_t* row_ids,   // [num_gradients], distinct
                 const float* gradients);  // [num_gradients, dim]

/// As above; the other rows in use have a gradient of zero.
void ApplyToRowsInUse(Executor& executor, const Rule& rule, const RulePlanes& planes,
                      int64_t num_rows,
                      const int64_t* rows_in_use,  // [num_rows], ascending; nullptr: 0, 1, 2, ...
                      int64_t num_gradients,
                      const int64_t* row_ids,   // [num_gradients], distinct
                      const float* gradients);  // [num_gradients, dim]

}  // namespace sok
