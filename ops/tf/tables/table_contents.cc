// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/table_contents.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "ops/tf/base/border.h"

namespace sok {
namespace {

constexpr int64_t kPartBytes = 16 << 20;
constexpr int64_t kKeysToAppend = 4 << 20;  // at a time: 32 MiB, and 64 MiB to sort them

/// Calls use(first, count) for rows [0, num_rows) in parts.
void ForEachPart(int64_t num_rows, int64_t width,
                 const std::function<void(int64_t first, int64_t count)>& use) {
  const int64_t most = RowsOfPart(width);
  for (int64_t first = 0; first < num_rows; first += most) {
    use(first, std::min(most, num_rows - first));
  }
}

}  // namespace

int64_t RowsOfPart(int64_t width) {
  return std::max<int64_t>(1, kPartBytes / (width * static_cast<int64_t>(sizeof(float))));
}

RowMover::RowMover(OpCall& call, Plane& plane, int64_t most_rows)
    : call_(call), plane_(&plane), width_(plane.width()) {
  if (!call.engine().IsHostMemory())
    part_ = call.Temporary<float>(std::min(most_rows, RowsOfPart(width_)) * width_);
}

RowMover::RowMover(OpCall& call, const RowsView& rows, int64_t most_rows)
    : call_(call), plane_(nullptr), rows_(rows), width_(rows.width) {
  if (!call.engine().IsHostMemory())
    part_ = call.Temporary<float>(std::min(most_rows, RowsOfPart(width_)) * width_);
}

void RowMover::ToHost(int64_t num_rows, const int64_t* row_ids, float* values) {
  ForEachPart(num_rows, width_, [&](int64_t first, int64_t count) {
    float* read = part_ == nullptr ? values + first * width_ : part_;
    call_.engine().GatherRows(call_, count, row_ids + first, rows(), read);
    call_.CopyToHost(values + first * width_, read, count * width_);
  });
}

void RowMover::FromHost(int64_t num_rows, const int64_t* row_ids, const float* values) {
  ForEachPart(num_rows, width_, [&](int64_t first, int64_t count) {
    const float* written = values + first * width_;
    if (part_ != nullptr) {
      call_.CopyFromHost(part_, written, count * width_);
      written = part_;
    }
    call_.engine().ScatterRows(call_, count, row_ids + first, written, rows());
  });
}

void RowMover::ExpectRows(int64_t num_rows) {
  if (plane_ != nullptr) plane_->ExpectRows(num_rows);
}

void RowMover::FromHostInOrder(int64_t num_rows, int64_t first_row, const float* values) {
  WithElement(rows().From(first_row), [&](auto* to) {
    if (values == to) return;
    ExpectRows(first_row + num_rows);
    call_.CopyFromHost(to, values, num_rows * width_);
  });
}

TableContents::TableContents(OpCall& call, const TableView& view) : call_(call), view_(view) {
  const TableOptions& options = view.options();
  int64_t width = options.dim;
  for (const Planes::Slot& slot : view.planes.slots) width = std::max(width, slot.plane->width());
  if (options.use_hash_index) {
    held_ = view.table.Export(call);
    size_ = held_.count;
  } else {
    size_ = options.placement.NumRows(options.capacity);
  }
  part_ = std::min(size_, RowsOfPart(width));
  if (!call.engine().IsHostMemory()) part_rows_ = call.Temporary<float>(part_ * width);
  if (options.use_hash_index) return;
  part_keys_ = call.Temporary<int64_t>(part_);
  part_row_ids_ = call.Temporary<int64_t>(part_);
}

void TableContents::ReadKeys(int64_t begin, int64_t count, int64_t* keys) {
  if (options().use_hash_index) return call_.CopyToHost(keys, held_.keys + begin, count);
  for (int64_t i = 0; i < count; ++i) keys[i] = options().placement.GlobalKey(begin + i);
}

/// Sets part_keys_ and their part_row_ids_.
void TableContents::FindRange(int64_t begin, int64_t count) {
  std::vector<int64_t> keys(static_cast<size_t>(count));
  ReadKeys(begin, count, keys.data());
  call_.CopyFromHost(part_keys_, keys.data(), count);
  view_.table.Find(call_, count, part_keys_, part_row_ids_);
}

/// Of a range of keys, calls fill_absent(its begin, the part's rows on the device, their number)
/// before the rows of keys that have one are read.
template <typename FillAbsent>
void TableContents::ReadPlane(const Plane& plane, int64_t begin, int64_t count, float* values,
                              const FillAbsent& fill_absent) {
  const int64_t width = plane.width();
  for (int64_t first = 0; first < count; first += part_) {
    const int64_t part = std::min(part_, count - first);
    float* read = part_rows_ == nullptr ? values + first * width : part_rows_;
    const int64_t* row_ids = part_row_ids_;
    if (options().use_hash_index) {
      row_ids = held_.row_ids + begin + first;
    } else {
      FindRange(begin + first, part);
      fill_absent(begin + first, read, part);
    }
    call_.engine().GatherRows(call_, part, row_ids, plane.data(), read);
    call_.CopyToHost(values + first * width, read, part * width);
  }
}

void TableContents::ReadRows(int64_t begin, int64_t count, float* rows) {
  const FirstValue& first_value = options().first_value;
  ReadPlane(*view_.planes.rows, begin, count, rows, [&](int64_t first, float* read, int64_t part) {
    if (view_.has_preset) {  // all rows hold preset or trained values
      std::vector<int64_t> row_ids(static_cast<size_t>(part));
      std::iota(row_ids.begin(), row_ids.end(), first);
      call_.CopyFromHost(part_row_ids_, row_ids.data(), part);
      return;
    }
    // Keys that were never written have no first value in a table that was never preset.
    if (first_value.kind == FirstValue::Kind::kPreset)
      call_.engine().Fill(call_, read, part * options().dim, 0.0f);
    call_.engine().FillAbsentRows(call_, part, options().dim, first_value, part_keys_,
                                  part_row_ids_, read);
  });
}

void TableContents::ReadSlot(const Planes::Slot& slot, int64_t begin, int64_t count, float* rows) {
  ReadPlane(*slot.plane, begin, count, rows, [&](int64_t, float* read, int64_t part) {
    call_.engine().Fill(call_, read, part * slot.plane->width(), slot.initial_value);
  });
}

TableFiller::TableFiller(OpCall& call, const TableView& fresh, int64_t num_keys,
                         int64_t most_at_once)
    : call_(call),
      fresh_(fresh),
      num_keys_(num_keys),
      most_(std::min(most_at_once, RowsOfPart(fresh.options().dim))) {
  fresh.table.Reserve(call, num_keys, fresh.planes);
  row_ids_ = call.Temporary<int64_t>(most_);
  if (call.engine().IsHostMemory()) return;
  part_keys_ = call.Temporary<int64_t>(most_);
  part_rows_ = call.Temporary<float>(most_ * fresh.options().dim);
}

const int64_t* TableFiller::Insert(int64_t count, const int64_t* keys, const float* rows,
                                   bool are_distinct) {
  if (part_keys_ != nullptr) {
    call_.CopyFromHost(part_keys_, keys, count);
    call_.CopyFromHost(part_rows_, rows, count * fresh_.options().dim);
    keys = part_keys_;
    rows = part_rows_;
  }
  fresh_.table.FindOrInsert(call_, count, keys, are_distinct, rows, fresh_.planes, row_ids_);
  return row_ids_;
}

int64_t TableFiller::Append(int64_t count, const int64_t* keys) {
  const int64_t first_row = num_appended_;
  if (first_row == 0) to_append_.reserve(static_cast<size_t>(std::min(num_keys_, kKeysToAppend)));
  to_append_.insert(to_append_.end(), keys, keys + count);
  num_appended_ += count;
  const bool fit = num_appended_ <= fresh_.options().capacity;  // else the table reports it now
  const auto num_waiting = static_cast<int64_t>(to_append_.size());
  if (!fit || num_waiting + count > kKeysToAppend) AppendWaiting();
  return first_row;
}

int64_t TableFiller::EndAppending() {
  AppendWaiting();
  return num_repeated_;
}

void TableFiller::AppendWaiting() {
  const auto count = static_cast<int64_t>(to_append_.size());
  const int64_t most = part_keys_ == nullptr ? count : most_;
  for (int64_t first = 0; first < count; first += most) {
    const int64_t part = std::min(most, count - first);
    const int64_t* keys = to_append_.data() + first;
    if (part_keys_ != nullptr) {
      call_.CopyFromHost(part_keys_, keys, part);
      keys = part_keys_;
    }
    num_repeated_ += fresh_.table.Append(call_, part, keys, row_ids_).num_repeated;
  }
  to_append_.clear();
}

}  // namespace sok
