// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/table_contents.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "ops/tf/base/border.h"

namespace sok {
namespace {

constexpr int64_t kPartBytes = 16 << 20;

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

const Plane& TableContents::PlaneAt(size_t column) const {
  return column == 1 ? *view_.planes.rows : *view_.planes.slots[view_.places[column - 2]].plane;
}

int64_t TableContents::row_bytes(size_t column) const {
  return width(column) * static_cast<int64_t>(column == 0 ? sizeof(int64_t) : sizeof(float));
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

void TableContents::Read(size_t column, int64_t begin, int64_t count, void* to) {
  if (column == 0) return ReadKeys(begin, count, static_cast<int64_t*>(to));
  const Plane& plane = PlaneAt(column);
  const int64_t width = plane.width();
  auto* values = static_cast<float*>(to);
  for (int64_t first = 0; first < count; first += part_) {
    const int64_t part = std::min(part_, count - first);
    float* read = part_rows_ == nullptr ? values + first * width : part_rows_;
    const int64_t* row_ids = part_row_ids_;
    if (options().use_hash_index) {
      row_ids = held_.row_ids + begin + first;
    } else {
      FindRange(begin + first, part);
      FillAbsent(column, begin + first, read, part);
    }
    call_.engine().GatherRows(call_, part, row_ids, plane.data(), read);
    call_.CopyToHost(values + first * width, read, part * width);
  }
}

/// Sets the part's rows, on the device, of keys that have none; of the others they are read next.
void TableContents::FillAbsent(size_t column, int64_t first, float* read, int64_t part) {
  const FirstValue& first_value = options().first_value;
  if (column > 1) {
    const float initial = view_.planes.slots[view_.places[column - 2]].initial_value;
    return call_.engine().Fill(call_, read, part * width(column), initial);
  }
  if (view_.has_preset) {  // all rows hold preset or trained values
    std::vector<int64_t> row_ids(static_cast<size_t>(part));
    std::iota(row_ids.begin(), row_ids.end(), first);
    return call_.CopyFromHost(part_row_ids_, row_ids.data(), part);
  }
  // Keys that were never written have no first value in a table that was never preset.
  if (first_value.kind == FirstValue::Kind::kPreset)
    call_.engine().Fill(call_, read, part * options().dim, 0.0f);
  call_.engine().FillAbsentRows(call_, part, options().dim, first_value, part_keys_, part_row_ids_,
                                read);
}

}  // namespace sok
