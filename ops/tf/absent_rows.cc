// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/absent_rows.h"

#include <vector>

#include "ops/base/first_appearance.h"
#include "ops/tf/border.h"

namespace sok {
namespace {

namespace tf = tensorflow;

/// For each key without a row the place of its row in `absent_rows`; -1 for the others.
std::vector<int64_t> PlacesInGiven(const TableOptions& options, const std::vector<int64_t>& row_ids,
                                   const tf::Tensor& absent_rows) {
  std::vector<int64_t> places(row_ids.size(), kNoRow);
  int64_t num_absent = 0;
  for (size_t i = 0; i < row_ids.size(); ++i) {
    if (row_ids[i] == kNoRow) places[i] = num_absent++;
  }
  if (absent_rows.dim_size(0) != num_absent || absent_rows.dim_size(1) != options.dim) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name,
          "': the initializer gave rows of shape ", absent_rows.shape().DebugString(),
          ", expected [", num_absent, ", ", options.dim, "]");
  }
  return places;
}

/// For each key without a row the row that it would get, which holds what was preset; -1 for the
/// others and beyond the capacity.
std::vector<int64_t> NextRows(const TableOptions& options, const std::vector<int64_t>& row_ids,
                              const std::vector<int64_t>& keys, int64_t next_row) {
  std::vector<int64_t> absent_keys;
  for (size_t i = 0; i < row_ids.size(); ++i) {
    if (row_ids[i] == kNoRow) absent_keys.push_back(keys[i]);
  }
  std::vector<int32_t> numbers(absent_keys.size());
  NumberByFirstAppearance(static_cast<int64_t>(absent_keys.size()), absent_keys.data(),
                          absent_keys.data(), numbers.data());
  std::vector<int64_t> rows(row_ids.size(), kNoRow);
  auto number = numbers.begin();
  for (size_t i = 0; i < row_ids.size(); ++i) {
    if (row_ids[i] != kNoRow) continue;
    const int64_t row = options.use_hash_index ? next_row + *number : keys[i] / options.world_size;
    ++number;
    if (row < options.capacity) rows[i] = row;
  }
  return rows;
}

}  // namespace

const float* AbsentRows(DeviceCall& call, const DeviceView& view, const tf::Tensor& keys,
                        const tf::Tensor& row_ids, const tf::Tensor& absent_rows) {
  const TableOptions& options = view.table.options();
  const int64_t num_keys = row_ids.NumElements();
  const bool are_given = absent_rows.dim_size(0) > 0;
  float* rows = call.Temporary<float>(num_keys * options.dim);
  if (!are_given && options.first_value.kind != FirstValue::Kind::kPreset) {
    call.engine().FillAbsentRows(call.stream(), num_keys, options.dim, options.first_value,
                                 Data<int64_t>(keys), Data<int64_t>(row_ids), rows);
    return rows;
  }
  const std::vector<int64_t> ids = call.ToHost(Data<int64_t>(row_ids), num_keys);
  const std::vector<int64_t> sources =
      are_given ? PlacesInGiven(options, ids, absent_rows)
                : NextRows(options, ids, call.ToHost(Data<int64_t>(keys), num_keys),
                           view.table.size(call.stream()).num_rows);
  call.engine().Fill(call.stream(), rows, num_keys * options.dim, 0.0f);
  call.engine().GatherRows(call.stream(), num_keys, options.dim, call.Upload(sources),
                           are_given ? Data<float>(absent_rows) : view.planes.rows->data(), rows);
  return rows;
}

}  // namespace sok
