// SPDX-License-Identifier: Apache-2.0
// New keys of a batch on the CPU.
#include "ops/cpu/index/new_keys.h"

#include <algorithm>

#include "ops/base/error.h"
#include "ops/base/first_appearance.h"
#include "ops/base/wide_vectors.h"
#include "ops/cpu/rows/fetch_rows.h"
#include "ops/cpu/rows/row_numbers.h"
#include "ops/engine/rounding.h"

namespace sok {
namespace {

int64_t RowNanoseconds(const Planes& planes) {
  int64_t width = 0;
  planes.ForEach([&](const Plane& plane) { width += plane.width(); });
  return kFirstValueColumnNanoseconds * std::max<int64_t>(1, width);
}

SOK_WIDE_VECTORS bool AreInside(int64_t count, const int64_t* row_ids, int64_t begin_row,
                                int64_t end_row) {
  int64_t num_outside = 0;
  for (int64_t i = 0; i < count; ++i) {
    num_outside += static_cast<int64_t>(row_ids[i] < begin_row) | (row_ids[i] >= end_row);
  }
  return num_outside == 0;
}

/// Writes first values to the rows `row_ids` of a plane; those of two bytes by way of floats.
template <typename Number>
void WriteFirstRows(const TableOptions& options, int64_t count, const int64_t* keys,
                    const int64_t* row_ids, Number* rows) {
  const FirstValue& first_value = options.first_value;
  const int64_t dim = options.dim;
  if constexpr (kIsFloat<Number>) {
    WriteFirstValues(first_value, count, keys, row_ids, dim, rows);
  } else if (first_value.kind != FirstValue::Kind::kPreset) {
    constexpr int64_t kGroup = 64;  // rows at a time: they share draws of random numbers
    std::vector<float> floats(static_cast<size_t>(std::min(count, kGroup) * dim));
    for (int64_t begin = 0; begin < count; begin += kGroup) {
      const int64_t size = std::min(kGroup, count - begin);
      WriteFirstValues(first_value, size, keys + begin, nullptr, dim, floats.data());
      for (int64_t i = 0; i < size; ++i) {
        StoreRow(floats.data() + i * dim, dim, rows + row_ids[begin + i] * dim);
      }
    }
  }
}

}  // namespace

void MakeRoom(const TableOptions& options, const Planes& planes, int64_t num_rows) {
  const auto make_room = [&](Plane& plane) {
    plane.ExpectRows(num_rows);
    if (plane.num_rows() >= num_rows) return;
    if (plane.MovesWhenItGrows()) {
      Throw(ErrorCode::kFailedPrecondition, "table '", options.name, "': a plane has memory for ",
            plane.num_rows(), " rows, and ", num_rows,
            " are needed; reserve memory before inserting keys");
    }
    plane.Reserve(num_rows);
    if (plane.num_rows() >= num_rows) return;
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': a plane has a capacity of ",
          plane.num_rows(), " rows, and ", num_rows, " are needed");
  };
  planes.ForEach(make_room);
}

void ReservePlanes(const Planes& planes, int64_t num_rows) {
  planes.ForEach([&](Plane& plane) { plane.Reserve(num_rows); });
}

int64_t FirstOutside(int64_t count, const int64_t* row_ids, int64_t begin_row, int64_t end_row) {
  if (AreInside(count, row_ids, begin_row, end_row)) return count;
  return std::find_if(row_ids, row_ids + count,
                      [=](int64_t row_id) { return row_id < begin_row || row_id >= end_row; }) -
         row_ids;
}

void CheckRowsToUpdate(const TableOptions& options, int64_t num_rows, int64_t count,
                       const int64_t* row_ids) {
  const int64_t first = FirstOutside(count, row_ids, INT64_MIN, num_rows);
  if (first < count) ThrowNoSuchRow(options, row_ids[first], num_rows);
}

NewKeys::NewKeys(const std::string& table_name, const KeyBatch& batch, int64_t num_missing,
                 const int64_t* batch_row_ids) {
  if (num_missing > INT32_MAX) {
    Throw(ErrorCode::kInvalidArgument, "table '", table_name, "': ", num_missing,
          " new keys in one batch are above the limit of ", INT32_MAX,
          "; insert them in several batches");
  }
  places_.reserve(static_cast<size_t>(num_missing));
  keys.reserve(static_cast<size_t>(num_missing));
  const int64_t num_keys = batch.num_keys;  // copies that writes cannot alias
  const int64_t* const batch_keys = batch.keys;
  for (int64_t i = 0; i < num_keys; ++i) {
    if (batch_row_ids[i] != kNoRow) continue;
    places_.push_back(i);
    keys.push_back(batch_keys[i]);
  }
  if (batch.keys_are_distinct) return;
  numbers_.resize(places_.size());
  const int64_t num_distinct =
      NumberByFirstAppearance(num_missing, keys.data(), keys.data(), numbers_.data());
  keys.resize(static_cast<size_t>(num_distinct));
}

/// [size]: the first position of each of `keys` in the batch.
std::vector<int64_t> NewKeys::FirstPlaces() const {
  std::vector<int64_t> first_places;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (NumberAt(i) == first_places.size()) first_places.push_back(places_[i]);
  }
  return first_places;
}

void NewKeys::WriteRows(Executor& executor, const TableOptions& options, const float* initial_rows,
                        const Planes& planes) const {
  const std::vector<int64_t> first_places =
      initial_rows == nullptr ? std::vector<int64_t>() : FirstPlaces();
  PlanesToFetch written;
  written.Add(planes);
  written.Fetch(size(), row_ids.data(), RowUse::kWrite);
  executor.ParallelFor(size(), RowNanoseconds(planes), [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const int64_t* const rows_of = row_ids.data() + begin;
    if (planes.rows != nullptr) {
      WithElement(planes.rows->data(), [&](auto* rows) {
        if (initial_rows == nullptr) {
          WriteFirstRows(options, count, keys.data() + begin, rows_of, rows);
          return;
        }
        for (int64_t i = 0; i < count; ++i) {
          const int64_t place = first_places[static_cast<size_t>(begin + i)];
          StoreRow(initial_rows + place * options.dim, options.dim,
                   rows + rows_of[i] * options.dim);
        }
      });
    }
    for (const Planes::Slot& slot : planes.slots) {
      const RowsView view = slot.plane->data();
      for (int64_t i = 0; i < count; ++i) {
        std::fill_n(view.As<float>() + rows_of[i] * view.width, view.width, slot.initial_value);
      }
    }
    if (planes.salts == nullptr) return;
    auto* const salts = planes.salts->data().As<Bfloat16>();
    for (int64_t i = 0; i < count; ++i) {
      salts[rows_of[i]] = SaltOf(keys[static_cast<size_t>(begin + i)]);
    }
  });
}

void NewKeys::CopyRowIdsTo(int64_t* batch_row_ids) const {
  for (size_t i = 0; i < places_.size(); ++i) {
    batch_row_ids[places_[i]] = row_ids[NumberAt(i)];
  }
}

}  // namespace sok
