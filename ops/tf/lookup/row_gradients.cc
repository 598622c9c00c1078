// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup/row_gradients.h"

#include <algorithm>
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

WaitingIds FindWaiting(tf::OpKernelContext* ctx, TableResource* resource,
                       const std::vector<int64_t>& ids) {
  WaitingIds found;
  const auto waiting = resource->WaitingKeys(ctx);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= kNoRow) continue;
    for (const auto& batch : waiting) {
      const int64_t place = batch->first_id - ids[i];
      if (place < 0 || place >= static_cast<int64_t>(batch->keys.size())) continue;
      found.places.push_back(i);
      found.keys.push_back(batch->keys[static_cast<size_t>(place)]);
    }
  }
  return found;
}

RowGradients GradientsOf(const TableOptions& options, const tf::Tensor& values,
                         const tf::Tensor& row_ids) {
  CheckRowGradients(options, values, row_ids.NumElements());
  return {row_ids.NumElements(), Data<int64_t>(row_ids), Data<float>(values)};
}

RowGradients GradientsOfAdmitted(tf::OpKernelContext* ctx, OpCall& call, TableResource* resource,
                                 const TableView& view, const RowGradients& given) {
  if (!view.policy.options().has_filter()) return given;
  std::vector<int64_t> row_ids(static_cast<size_t>(given.count));
  call.CopyToHost(row_ids.data(), given.row_ids, given.count);
  const auto waits = [](int64_t row_id) { return row_id < kNoRow; };
  if (std::none_of(row_ids.begin(), row_ids.end(), waits)) return given;
  const WaitingIds waiting = FindWaiting(ctx, resource, row_ids);
  const std::vector<int64_t> rows =
      view.table.FindOnHost(call, static_cast<int64_t>(waiting.keys.size()), waiting.keys.data());
  std::replace_if(row_ids.begin(), row_ids.end(), waits, kNoRow);
  for (size_t i = 0; i < rows.size(); ++i) row_ids[waiting.places[i]] = rows[i];
  std::vector<int64_t> places, admitted;
  for (size_t i = 0; i < row_ids.size(); ++i) {
    if (row_ids[i] == kNoRow) continue;
    places.push_back(static_cast<int64_t>(i));
    admitted.push_back(row_ids[i]);
  }
  const auto count = static_cast<int64_t>(places.size());
  const int64_t dim = view.options().dim;
  auto* ids = call.Temporary<int64_t>(count);
  auto* values = call.Temporary<float>(count * dim);
  call.CopyFromHost(ids, admitted.data(), count);
  call.engine().GatherRows(call, count, call.OnDevice(places.data(), count),
                           FloatRows(given.values, dim), values);
  return {count, ids, values};
}

RowGradients DistinctGradients(OpCall& call, Table& table, const RowGradients& given,
                               bool row_ids_are_distinct) {
  const int64_t count = given.count;
  const TableOptions& options = table.options();
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
