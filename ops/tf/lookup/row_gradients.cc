// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup/row_gradients.h"

#include <vector>

#include "ops/tf/base/lookup_checks.h"

namespace sok {
namespace {

void CheckRows(OpCall& call, Table& table, int64_t count, const int64_t* row_ids) {
  const int64_t position = table.FirstWithoutRow(call, count, row_ids);
  if (position == count) return;
  int64_t row_id = 0;
  call.CopyToHost(&row_id, row_ids + position, 1);
  ThrowNoSuchRow(table.options(), row_id, table.Size(call).num_rows);
}

}  // namespace

RowGradients CheckedRowGradients(OpCall& call, Table& table, const tensorflow::Tensor& values,
                                 const tensorflow::Tensor& row_ids, bool row_ids_are_distinct) {
  const int64_t count = row_ids.NumElements();
  const RowGradients given{count, Data<int64_t>(row_ids), Data<float>(values)};
  const TableOptions& options = table.options();
  CheckRowGradients(options, values, count);
  if (count == 0) return given;
  // On a GPU the check would have to wait.
  if (!row_ids_are_distinct || call.engine().IsHostMemory()) {
    CheckRows(call, table, count, given.row_ids);
  }
  if (row_ids_are_distinct) return given;
  CheckBatchOfKeys("gradients", count);
  auto* distinct = call.Temporary<int64_t>(count);
  auto* inverse = call.Temporary<int32_t>(count);
  Bags bags;
  bags.num_keys = count;
  bags.num_bags = count;
  bags.num_distinct = call.engine().DistinctKeys(call, count, given.row_ids, distinct, inverse);
  if (bags.num_distinct == count) return given;
  bags.inverse = inverse;
  auto* merged = call.Temporary<float>(bags.num_distinct * options.dim);
  call.engine().MergeGradients(call, bags, options.dim, given.values, merged);
  return {bags.num_distinct, distinct, merged};
}

}  // namespace sok
