// SPDX-License-Identifier: Apache-2.0
// New keys of a batch on the CPU.
#include "ops/table/new_keys.h"

#include <algorithm>

#include "ops/base/error.h"
#include "ops/base/first_appearance.h"

namespace sok {
namespace {

int64_t RowNanoseconds(const TableOptions& options, const RowPlanes& planes) {
  int64_t width = planes.rows == nullptr ? 0 : options.dim;
  for (const RowPlanes::Slot& slot : planes.slots) width += slot.width;
  return kFirstValueColumnNanoseconds * std::max<int64_t>(1, width);
}

}  // namespace

NewKeys::NewKeys(const std::string& table_name, int64_t num_missing, int64_t num_keys,
                 const int64_t* batch_keys, const int64_t* batch_row_ids, bool keys_are_distinct) {
  if (num_missing > INT32_MAX) {
    Throw(ErrorCode::kInvalidArgument, "table '", table_name, "': ", num_missing,
          " new keys in one batch are above the limit of ", INT32_MAX,
          "; insert them in several batches");
  }
  places_.reserve(static_cast<size_t>(num_missing));
  keys.reserve(static_cast<size_t>(num_missing));
  for (int64_t i = 0; i < num_keys; ++i) {
    if (batch_row_ids[i] != kNoRow) continue;
    places_.push_back(i);
    keys.push_back(batch_keys[i]);
  }
  if (keys_are_distinct) return;
  numbers_.resize(places_.size());
  const int64_t num_distinct =
      NumberByFirstAppearance(num_missing, keys.data(), keys.data(), numbers_.data());
  keys.resize(static_cast<size_t>(num_distinct));
}

/// [size]: where in the batch each of `keys` stands first.
std::vector<int64_t> NewKeys::FirstPlaces() const {
  std::vector<int64_t> first_places;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (NumberAt(i) == first_places.size()) first_places.push_back(places_[i]);
  }
  return first_places;
}

void NewKeys::WriteRows(Executor& executor, const TableOptions& options, const float* initial_rows,
                        const RowPlanes& planes) const {
  if (planes.rows == nullptr && planes.slots.empty()) return;
  const int64_t dim = options.dim;
  const std::vector<int64_t> first_places =
      initial_rows == nullptr ? std::vector<int64_t>() : FirstPlaces();
  const auto write_rows = [&](int64_t begin, int64_t end) {
    if (initial_rows == nullptr) {
      WriteFirstValues(options.first_value, end - begin, keys.data() + begin,
                       row_ids.data() + begin, dim, planes.rows);
      return;
    }
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      std::copy_n(initial_rows + first_places[i] * dim, dim, planes.rows + row_ids[i] * dim);
    }
  };
  executor.ParallelFor(size(), RowNanoseconds(options, planes), [&](int64_t begin, int64_t end) {
    if (planes.rows != nullptr) write_rows(begin, end);
    for (const RowPlanes::Slot& slot : planes.slots) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        std::fill_n(slot.data + row_ids[i] * slot.width, slot.width, slot.initial_value);
      }
    }
  });
}

void NewKeys::CopyRowIdsTo(int64_t* batch_row_ids) const {
  for (size_t i = 0; i < places_.size(); ++i) {
    batch_row_ids[places_[i]] = row_ids[NumberAt(i)];
  }
}

}  // namespace sok
