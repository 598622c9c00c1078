// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/table_from_rows.h"

#include <algorithm>

namespace sok {
namespace {

constexpr int64_t kKeysToAppend = 4 << 20;  // at a time: 32 MiB, and 64 MiB to sort them

}  // namespace

TableFromRows::TableFromRows(OpCall& call, const TableView& fresh, int64_t num_keys,
                             int64_t most_at_once, bool are_distinct, int64_t latest)
    : call_(call),
      fresh_(fresh),
      columns_(ColumnsOf(call, fresh, latest)),
      other_slots_(fresh.planes.slots),
      num_keys_(num_keys),
      most_(std::min(most_at_once, RowsOfPart(fresh.options().dim))),
      are_distinct_(are_distinct) {
  for (const size_t place : fresh.places) other_slots_[place].initial_value = 0;  // not filled
  fresh.table.Reserve(call, num_keys, fresh.planes);
  row_ids_ = call.Temporary<int64_t>(most_);
  if (call.engine().IsHostMemory()) return;
  part_keys_ = call.Temporary<int64_t>(most_);
  part_rows_ = call.Temporary<float>(most_ * fresh.options().dim);
}

const int64_t* TableFromRows::Insert(int64_t count, const int64_t* keys, const NumbersOf& numbers,
                                     bool are_fresh) {
  const auto* rows = static_cast<const float*>(numbers(0));
  if (part_keys_ != nullptr) {
    call_.CopyFromHost(part_keys_, keys, count);
    keys = part_keys_;
    if (rows != nullptr) {
      call_.CopyFromHost(part_rows_, rows, count * fresh_.options().dim);
      rows = part_rows_;
    }
  }
  fresh_.table.FindOrInsert(call_, {count, keys, are_distinct_, rows}, fresh_.planes, row_ids_);
  for (size_t i = are_fresh ? 1 : 0; i < columns_.size(); ++i) {
    if (const void* of_column = numbers(i))
      columns_[i].source->FromHost(count, row_ids_, of_column);
  }
  return row_ids_;
}

int64_t TableFromRows::Append(int64_t count, const int64_t* keys, const NumbersOf& numbers) {
  const int64_t first = AppendKeys(count, keys);
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (const void* of_column = numbers(i))
      columns_[i].source->FromHostInOrder(count, first, of_column);
  }
  for (const Planes::Slot& slot : other_slots_) {
    if (slot.initial_value == 0) continue;
    slot.plane->ExpectRows(first + count);
    WithElement(slot.plane->data().From(first), [&](auto* to) {
      call_.engine().Fill(call_, to, count * slot.plane->width(), slot.initial_value);
    });
  }
  return first;
}

int64_t TableFromRows::AppendKeys(int64_t count, const int64_t* keys) {
  const int64_t first_row = num_appended_;
  if (first_row == 0) to_append_.reserve(static_cast<size_t>(std::min(num_keys_, kKeysToAppend)));
  to_append_.insert(to_append_.end(), keys, keys + count);
  num_appended_ += count;
  const bool fit = num_appended_ <= fresh_.options().capacity;  // else the table reports it now
  const auto num_waiting = static_cast<int64_t>(to_append_.size());
  if (!fit || num_waiting + count > kKeysToAppend) AppendWaiting();
  return first_row;
}

int64_t TableFromRows::EndAppending() {
  AppendWaiting();
  return num_repeated_;
}

void TableFromRows::AppendWaiting() {
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
