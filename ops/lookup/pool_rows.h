// SPDX-License-Identifier: Apache-2.0
// Forward: the rows of distinct keys to the output of each bag. No table, no communication.
#ifndef SOK_OPS_LOOKUP_POOL_ROWS_H_
#define SOK_OPS_LOOKUP_POOL_ROWS_H_

#include <cstdint>

#include "ops/base/executor.h"
#include "ops/lookup/bags.h"

namespace sok {

/// out[b] = Scale * sum of rows[inverse[i]] for i in bag b, added up in a fixed order; an empty
/// bag gives zeros. Combiner kNone: out[i] = rows[inverse[i]].
void PoolRows(Executor& executor, const Bags& bags, int64_t dim,
              const float* const* rows,  // [num_distinct], each points at dim floats
              float* out);               // [num_bags, dim]

}  // namespace sok

#endif  // SOK_OPS_LOOKUP_POOL_ROWS_H_
