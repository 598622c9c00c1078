// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/resource/absent_rows.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <type_traits>
#include <vector>

#include "ops/base/first_appearance.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/lookup_checks.h"

namespace sok {
namespace {

/// For each key without a row, the row that it would get, which holds the preset value; -1 for
/// other keys and beyond the capacity.
std::vector<int64_t> NextRows(const TableOptions& options, int64_t num_keys, const int64_t* row_ids,
                              const int64_t* keys, int64_t next_row) {
  std::vector<int64_t> absent_keys;
  std::vector<int64_t> rows(static_cast<size_t>(num_keys), kNoRow);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (row_ids[i] == kNoRow) absent_keys.push_back(keys[i]);
  }
  std::vector<int32_t> numbers(absent_keys.size());
  NumberByFirstAppearance(static_cast<int64_t>(absent_keys.size()), absent_keys.data(),
                          absent_keys.data(), numbers.data());
  auto number = numbers.begin();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (row_ids[i] != kNoRow) continue;
    const int64_t row =
        options.use_hash_index ? next_row + *number : options.placement.LocalKey(keys[i]);
    ++number;
    if (row < options.capacity) rows[i] = row;
  }
  return rows;
}

/// The position in `absent_rows` of each key without a row; -1 for the other keys.
std::vector<int64_t> PlacesInGiven(const TableOptions& options, int64_t num_keys,
                                   const int64_t* row_ids, const tf::Tensor& absent_rows) {
  std::vector<int64_t> places(static_cast<size_t>(num_keys), kNoRow);
  int64_t num_absent = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (row_ids[i] == kNoRow) places[i] = num_absent++;
  }
  if (num_absent > 0) CheckAbsentRows(options, num_absent, absent_rows);
  return places;
}

/// FillAbsentRows in the host's memory, computing the row of a repeated key once: copying it takes
/// a tenth of the time.
void FillEachKeyOnce(OpCall& call, const TableOptions& options, int64_t num_keys,
                     const int64_t* keys, const int64_t* row_ids, float* rows) {
  std::vector<int64_t> places, absent_keys;
  for (int64_t i = 0; i < num_keys; ++i) {
    if (row_ids[i] != kNoRow) continue;
    places.push_back(i);
    absent_keys.push_back(keys[i]);
  }
  const auto num_absent = static_cast<int64_t>(places.size());
  std::vector<int32_t> numbers(places.size());
  const int64_t num_distinct =
      NumberByFirstAppearance(num_absent, absent_keys.data(), absent_keys.data(), numbers.data());
  std::vector<int64_t> first_places;                            // [num_distinct]
  std::vector<int64_t> is_filled(row_ids, row_ids + num_keys);  // as in row_ids: >= 0
  for (size_t i = 0; i < places.size(); ++i) {
    if (numbers[i] == static_cast<int64_t>(first_places.size())) {
      first_places.push_back(places[i]);
    } else {
      is_filled[static_cast<size_t>(places[i])] = 0;
    }
  }
  call.engine().FillAbsentRows(call, num_keys, options.dim, options.first_value, keys,
                               is_filled.data(), rows);
  if (num_distinct == num_absent) return;
  const int64_t dim = options.dim;
  call.executor().ParallelFor(num_absent, 1 + dim / 4, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const int64_t first = first_places[static_cast<size_t>(numbers[i])];
      if (first != places[i]) std::copy_n(rows + first * dim, dim, rows + places[i] * dim);
    }
  });
}

/// Rows in the place of the table's are numbers that these can have: they travel as such.
void RoundAsRows(OpCall& call, const TableOptions& options, int64_t num_rows, float* rows) {
  const Element element = options.first_value.element;
  if (element == Element::kFloat32) return;
  std::vector<int64_t> row_ids(static_cast<size_t>(num_rows));
  std::iota(row_ids.begin(), row_ids.end(), int64_t{0});
  const int64_t* ids = call.OnDevice(row_ids.data(), num_rows);
  const RowsView narrow{call.Temporary<Bfloat16>(num_rows * options.dim), element, options.dim};
  call.engine().ScatterRows(call, num_rows, ids, rows, narrow);
  call.engine().GatherRows(call, num_rows, ids, narrow, rows);
}

}  // namespace

void GiveRows(const TableOptions& options, const tf::Tensor& absent_rows, Arrival* arrival) {
  const int64_t* found = arrival->found;
  CheckAbsentRows(options, std::count(found, found + arrival->num_keys, kNoRow), absent_rows);
  arrival->initial_rows = Data<float>(absent_rows);
}

bool MayHaveAbsent(OpCall& call, const tf::Tensor& row_ids) {
  constexpr int64_t kNanoseconds = 1;
  if (!call.engine().IsHostMemory()) return true;
  const int64_t* ids = Data<int64_t>(row_ids);
  std::atomic<bool> has_absent{false};
  call.executor().ParallelFor(row_ids.NumElements(), kNanoseconds, [&](int64_t begin, int64_t end) {
    int64_t signs = 0;
    for (int64_t i = begin; i < end; ++i) signs |= ids[i];
    if (signs < 0) has_absent = true;
  });
  return has_absent;
}

const float* AbsentRows(OpCall& call, const TableView& view, const tf::Tensor& keys,
                        const tf::Tensor& row_ids, const tf::Tensor& absent_rows) {
  if (!MayHaveAbsent(call, row_ids)) return nullptr;
  const TableOptions& options = view.options();
  const int64_t num_keys = row_ids.NumElements();
  const bool are_given = absent_rows.dim_size(0) > 0;
  float* rows = call.Temporary<float>(num_keys * options.dim);
  if (view.policy.options().has_filter()) {
    float value = view.policy.options().value_without_row;
    WithElement({nullptr, options.first_value.element}, [&](auto* number) {
      value = Nearest<std::remove_pointer_t<decltype(number)>>(value);
    });
    call.engine().Fill(call, rows, num_keys * options.dim, value);
    return rows;
  }
  const bool is_function = options.first_value.kind != FirstValue::Kind::kPreset;
  if (!are_given && is_function && call.engine().IsHostMemory()) {
    FillEachKeyOnce(call, options, num_keys, Data<int64_t>(keys), Data<int64_t>(row_ids), rows);
    return rows;
  }
  if (!are_given && is_function) {
    call.engine().FillAbsentRows(call, num_keys, options.dim, options.first_value,
                                 Data<int64_t>(keys), Data<int64_t>(row_ids), rows);
    return rows;
  }
  std::vector<int64_t> ids_buffer, keys_buffer;
  const int64_t* ids = call.OnHost(Data<int64_t>(row_ids), num_keys, &ids_buffer);
  const std::vector<int64_t> sources =
      are_given ? PlacesInGiven(options, num_keys, ids, absent_rows)
                : NextRows(options, num_keys, ids,
                           call.OnHost(Data<int64_t>(keys), num_keys, &keys_buffer),
                           view.table.Size(call).num_rows);
  call.engine().Fill(call, rows, num_keys * options.dim, 0.0f);
  call.engine().GatherRows(
      call, num_keys, call.OnDevice(sources.data(), num_keys),
      are_given ? FloatRows(Data<float>(absent_rows), options.dim) : view.planes.rows->data(),
      rows);
  if (are_given) RoundAsRows(call, options, num_keys, rows);
  return rows;
}

}  // namespace sok
