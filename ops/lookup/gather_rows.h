// SPDX-License-Identifier: Apache-2.0
// Rows by row id. No table, no bags.
#ifndef SOK_OPS_LOOKUP_GATHER_ROWS_H_
#define SOK_OPS_LOOKUP_GATHER_ROWS_H_

#include <cstdint>

#include "ops/base/executor.h"

namespace sok {

/// out[i] = plane[row_ids[i]]; where row_ids[i] < 0, out[i] stays as it is.
void GatherRows(Executor& executor, int64_t num_rows, int64_t dim,
                const int64_t* row_ids,  // [num_rows]
                const float* plane,      // [rows, dim]
                float* out);             // [num_rows, dim]

}  // namespace sok

#endif  // SOK_OPS_LOOKUP_GATHER_ROWS_H_
