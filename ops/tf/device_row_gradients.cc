// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/device_row_gradients.h"

#include "ops/tf/border.h"
#include "ops/tf/lookup_checks.h"

namespace sok {

DeviceRowGradients CheckedRowGradients(DeviceCall& call, EngineTable& table,
                                       const tensorflow::Tensor& values,
                                       const tensorflow::Tensor& row_ids,
                                       bool row_ids_are_distinct) {
  const int64_t count = row_ids.NumElements();
  const int64_t* ids = Data<int64_t>(row_ids);
  const TableOptions& options = table.options();
  CheckRowGradients(options, values, count);
  if (row_ids_are_distinct || count == 0) return {count, ids, Data<float>(values)};
  const int64_t position = table.FirstWithoutRow(call.stream(), count, ids);
  if (position < count) {
    ThrowNoSuchRow(options, call.ToHost(ids + position, 1).front(),
                   table.size(call.stream()).num_rows);
  }
  auto* distinct = call.Temporary<int64_t>(count);
  auto* inverse = call.Temporary<int32_t>(count);
  Bags bags;
  bags.num_keys = count;
  bags.num_bags = count;
  bags.num_distinct = call.engine().DistinctKeys(call.stream(), count, ids, distinct, inverse);
  if (bags.num_distinct == count) return {count, ids, Data<float>(values)};
  bags.inverse = inverse;
  auto* merged = call.Temporary<float>(bags.num_distinct * options.dim);
  call.engine().MergeGradients(call.stream(), bags, options.dim, Data<float>(values), merged);
  return {bags.num_distinct, distinct, merged};
}

}  // namespace sok
