// SPDX-License-Identifier: Apache-2.0
#include "ops/lookup/gather_rows.h"

#include <algorithm>

#include "ops/lookup/fixed_dim.h"

namespace sok {
namespace {

int64_t RowCost(int64_t dim) { return 12 + dim / 8; }

}  // namespace

void GatherRows(Executor& executor, int64_t num_rows, int64_t dim, const int64_t* row_ids,
                const float* plane, float* out) {
  executor.ParallelFor(num_rows, RowCost(dim), [&](int64_t begin, int64_t end) {
    WithFixedDim(dim, [&](auto fixed_dim) {
      const int64_t size = fixed_dim;
      const int64_t ahead = PrefetchDistance(NumLines(size));
      for (int64_t i = begin; i < end; ++i) {
        // A prefetch of no row does nothing: addresses that do not exist are ignored.
        if (i + ahead < end) PrefetchRow(plane + row_ids[i + ahead] * size, size);
        if (row_ids[i] >= 0) std::copy_n(plane + row_ids[i] * size, size, out + i * size);
      }
    });
  });
}

}  // namespace sok
