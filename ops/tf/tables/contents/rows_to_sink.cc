// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/rows_to_sink.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace sok {
namespace {

constexpr int64_t kKeysAtOnce = 1 << 18;

}  // namespace

void MoveKeys(KeysInOrder& keys, RowsSink& sink) {
  const int64_t most = RowsOfPart(sizeof(int64_t) / sizeof(float));
  sink.Begin(0, 1);
  keys.ForEachKeys([&](int64_t num_keys, const int64_t* of_part) {
    for (int64_t first = 0; first < num_keys; first += most) {
      const auto num_bytes =
          static_cast<size_t>(std::min(most, num_keys - first)) * sizeof(int64_t);
      std::memcpy(sink.Buffer(num_bytes), of_part + first, num_bytes);
      sink.Append(num_bytes);
    }
  });
  sink.End();
}

void MoveColumn(KeysInOrder& keys, Column& column, size_t number, RowsSink& sink) {
  sink.Begin(number, column.row_shape.num_elements());
  keys.ForEachRowIds(column.RowsAtOnce(), [&](int64_t count, const int64_t* row_ids) {
    const auto num_bytes = static_cast<size_t>(count * column.row_bytes());
    column.source->ToHost(count, row_ids, sink.Buffer(num_bytes));
    sink.Append(num_bytes);
  });
  sink.End();
}

void MoveRows(KeysInOrder& keys, std::vector<Column>& columns, RowsSink& sink) {
  MoveKeys(keys, sink);
  for (size_t i = 0; i < columns.size(); ++i) MoveColumn(keys, columns[i], 1 + i, sink);
}

void Entries::ForEachKeys(const Use& use) {
  if (entries_.count == 0) return;
  std::vector<int64_t> buffer;
  use(entries_.count, call_.OnHost(entries_.keys, entries_.count, &buffer));
}

void Entries::ForEachRowIds(int64_t most, const Use& use) {
  for (int64_t first = 0; first < entries_.count; first += most)
    use(std::min(most, entries_.count - first), entries_.row_ids + first);
}

KeyRange::KeyRange(OpCall& call, const TableView& view, int64_t end, std::vector<Column>* columns)
    : call_(call), view_(view) {
  const Placement& placement = view.options().placement;
  count_ = placement.NumRows(view.options().capacity);
  while (count_ > 0 && placement.GlobalKey(count_ - 1) >= end) --count_;
  (*columns)[0].source->SetAbsent(
      [this](int64_t first, int64_t count, float* to) { FillRows(first, count, to); });
  for (size_t i = 0; i < view.places.size(); ++i) {
    const Planes::Slot& slot = view.planes.slots[view.places[i]];
    (*columns)[1 + i].source->SetAbsent([this, &slot](int64_t, int64_t count, float* to) {
      call_.engine().Fill(call_, to, count * slot.plane->width(), slot.initial_value);
    });
  }
}

std::vector<int64_t> KeyRange::Keys(int64_t first, int64_t count) const {
  std::vector<int64_t> keys(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    keys[static_cast<size_t>(i)] = view_.options().placement.GlobalKey(first + i);
  return keys;
}

void KeyRange::ForEachKeys(const Use& use) {
  for (int64_t first = 0; first < count_; first += kKeysAtOnce) {
    const int64_t count = std::min(kKeysAtOnce, count_ - first);
    use(count, Keys(first, count).data());
  }
}

void KeyRange::ForEachRowIds(int64_t most, const Use& use) {
  if (keys_ == nullptr) {
    keys_ = call_.Temporary<int64_t>(std::min(kKeysAtOnce, count_));
    row_ids_ = call_.Temporary<int64_t>(std::min(kKeysAtOnce, count_));
  }
  most = std::min(most, kKeysAtOnce);
  for (first_ = 0; first_ < count_; first_ += most) {
    const int64_t count = std::min(most, count_ - first_);
    call_.CopyFromHost(keys_, Keys(first_, count).data(), count);
    view_.table.Find(call_, count, keys_, row_ids_);
    use(count, row_ids_);
  }
}

/// The first values of keys of the part that have no row.
void KeyRange::FillRows(int64_t first, int64_t count, float* to) {
  const TableOptions& options = view_.options();
  const FirstValue& first_value = options.first_value;
  if (view_.has_preset) {  // all rows hold preset or trained values
    std::vector<int64_t> row_ids(static_cast<size_t>(count));
    std::iota(row_ids.begin(), row_ids.end(), first_ + first);
    call_.CopyFromHost(keys_ + first, row_ids.data(), count);
    return call_.engine().GatherRows(call_, count, keys_ + first, view_.planes.rows->data(), to);
  }
  // Keys that were never written have no first value in a table that was never preset.
  if (first_value.kind == FirstValue::Kind::kPreset)
    call_.engine().Fill(call_, to, count * options.dim, 0.0f);
  call_.engine().FillAbsentRows(call_, count, options.dim, first_value, keys_ + first,
                                row_ids_ + first, to);
}

}  // namespace sok
