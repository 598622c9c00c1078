// SPDX-License-Identifier: Apache-2.0
// Forward: pools the rows of distinct keys into the output of each bag. No table, no communication.
#ifndef SOK_OPS_CPU_ROWS_POOL_ROWS_H_
#define SOK_OPS_CPU_ROWS_POOL_ROWS_H_

#include <cstdint>

#include "ops/base/threads/executor.h"
#include "ops/engine/bags.h"

namespace sok {

/// As Engine::PoolRows, with arbitrary addresses of rows. The order of additions is fixed.
void PoolRows(Executor& executor, const Bags& bags, int64_t dim,
              const float* const* rows,  // [num_distinct], each points at dim floats
              float* out);               // [num_bags, dim]

}  // namespace sok

#endif  // SOK_OPS_CPU_ROWS_POOL_ROWS_H_
