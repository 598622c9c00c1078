// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/table_contents.h"

#include <algorithm>
#include <functional>

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
    : call_(call), plane_(&plane), rows_(nullptr), width_(plane.width()) {
  if (!call.engine().IsHostMemory())
    part_ = call.Temporary<float>(std::min(most_rows, RowsOfPart(width_)) * width_);
}

RowMover::RowMover(OpCall& call, float* rows, int64_t width, int64_t most_rows)
    : call_(call), plane_(nullptr), rows_(rows), width_(width) {
  if (!call.engine().IsHostMemory())
    part_ = call.Temporary<float>(std::min(most_rows, RowsOfPart(width_)) * width_);
}

void RowMover::ToHost(int64_t num_rows, const int64_t* row_ids, float* values) {
  ForEachPart(num_rows, width_, [&](int64_t first, int64_t count) {
    float* read = part_ == nullptr ? values + first * width_ : part_;
    call_.engine().GatherRows(call_, count, width_, row_ids + first, rows(), read);
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
    call_.engine().ScatterRows(call_, count, width_, row_ids + first, written, rows());
  });
}

void RowMover::ExpectRows(int64_t num_rows) {
  if (plane_ != nullptr) plane_->ExpectRows(num_rows);
}

void RowMover::FromHostInOrder(int64_t num_rows, int64_t first_row, const float* values) {
  if (values == rows() + first_row * width_) return;
  ExpectRows(first_row + num_rows);
  call_.CopyFromHost(rows() + first_row * width_, values, num_rows * width_);
}

TableContents::TableContents(OpCall& call, const TableView& view) : call_(call), view_(view) {
  const TableOptions& options = view.options();
  if (options.use_hash_index) {
    held_ = view.table.Export(call);
    size_ = held_.count;
  } else {
    size_ = options.placement.NumRows(options.capacity);
  }
  const int64_t most = std::min(size_, RowsOfPart(options.dim));
  if (!call.engine().IsHostMemory()) part_rows_ = call.Temporary<float>(most * options.dim);
  if (options.use_hash_index) return;
  part_keys_ = call.Temporary<int64_t>(most);
  part_row_ids_ = call.Temporary<int64_t>(most);
}

void TableContents::Read(int64_t begin, int64_t count, int64_t* keys, float* rows) {
  const int64_t dim = options().dim;
  ForEachPart(count, dim, [&](int64_t first, int64_t part) {
    if (options().use_hash_index) {
      ReadHeld(begin + first, part, keys + first, rows + first * dim);
    } else {
      ReadRange(begin + first, part, keys + first, rows + first * dim);
    }
  });
}

void TableContents::ReadHeld(int64_t begin, int64_t count, int64_t* keys, float* rows) {
  const int64_t dim = options().dim;
  float* read = part_rows_ == nullptr ? rows : part_rows_;
  call_.CopyToHost(keys, held_.keys + begin, count);
  call_.engine().GatherRows(call_, count, dim, held_.row_ids + begin, view_.planes.rows->data(),
                            read);
  call_.CopyToHost(rows, read, count * dim);
}

void TableContents::ReadRange(int64_t begin, int64_t count, int64_t* keys, float* rows) {
  const int64_t dim = options().dim;
  float* read = part_rows_ == nullptr ? rows : part_rows_;
  for (int64_t i = 0; i < count; ++i) keys[i] = options().placement.GlobalKey(begin + i);
  call_.CopyFromHost(part_keys_, keys, count);
  if (view_.has_preset) {  // all rows hold preset or trained values
    std::vector<int64_t> row_ids(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) row_ids[static_cast<size_t>(i)] = begin + i;
    call_.CopyFromHost(part_row_ids_, row_ids.data(), count);
  } else {
    view_.table.Find(call_, count, part_keys_, part_row_ids_);
    // Keys that were never written have no first value in a table that was never preset.
    if (options().first_value.kind == FirstValue::Kind::kPreset) {
      call_.engine().Fill(call_, read, count * dim, 0.0f);
    }
  }
  call_.engine().GatherRows(call_, count, dim, part_row_ids_, view_.planes.rows->data(), read);
  call_.engine().FillAbsentRows(call_, count, dim, options().first_value, part_keys_, part_row_ids_,
                                read);
  call_.CopyToHost(rows, read, count * dim);
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
