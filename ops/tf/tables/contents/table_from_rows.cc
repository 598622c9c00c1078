// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/table_from_rows.h"

#include <algorithm>

#include "ops/tf/tables/contents/clamped.h"

namespace sok {
namespace {

constexpr int64_t kKeysToAppend = 4 << 20;  // at a time: 32 MiB, and 64 MiB to sort them

}  // namespace

TableFromRows::TableFromRows(OpCall& call, const TableView& fresh, int64_t num_keys,
                             int64_t most_at_once, int64_t latest)
    : call_(call),
      fresh_(fresh),
      columns_(ColumnsOf(call, fresh, Element::kFloat32, latest)),
      other_slots_(fresh.planes.slots),
      num_keys_(num_keys),
      most_(std::min(most_at_once, RowsOfPart(fresh.options().dim))) {
  for (const size_t place : fresh.places) other_slots_[place].initial_value = 0;  // not filled
  fresh.table.Reserve(call, num_keys, fresh.planes);
  row_ids_ = call.Temporary<int64_t>(most_);
  if (call.engine().IsHostMemory()) return;
  part_keys_ = call.Temporary<int64_t>(most_);
  part_rows_ = call.Temporary<float>(most_ * fresh.options().dim);
}

TableFromRows::~TableFromRows() {
  WarnOfClamped(fresh_.options().name, num_clamped_ + columns_[0].source->num_clamped());
}

void TableFromRows::SetElementOfRows(Element element) {
  if (columns_[0].dtype == DataTypeOf(element)) return;
  num_clamped_ += columns_[0].source->num_clamped();
  columns_[0] =
      ColumnOf("", RowMover(call_, *fresh_.planes.rows, fresh_.options().capacity), element);
}

void TableFromRows::Expect(int64_t num_keys) {
  fresh_.table.Reserve(call_, fresh_.table.Size(call_).num_keys + num_keys, fresh_.planes);
}

void TableFromRows::Fill(RowsSource& source, Keys keys, const RowsSource::Use& check) {
  const auto put = [&](const RowsBlock& block) {
    check(block);
    if (keys == Keys::kAppended) return Append(block);
    if (keys == Keys::kInserted) num_inserted_ += block.count;
    Insert(block, keys == Keys::kInserted);
  };
  source.ForEachBlock(
      put, keys == Keys::kAppended ? PlaceInPlanes(source.num_keys()) : RowsSource::Place());
}

/// The final destination of rows that will be appended if that is in the host's memory. Nobody
/// reads there meanwhile.
RowsSource::Place TableFromRows::PlaceInPlanes(int64_t num_keys) {
  const int64_t first = num_appended_;
  if (!call_.engine().IsHostMemory() || first + num_keys > fresh_.options().capacity) return {};
  for (Column& column : columns_) column.source->ExpectRows(first + num_keys);
  return [this, first](size_t column, int64_t n) -> char* {
    if (column > columns_.size()) return nullptr;
    const RowsView rows = columns_[column - 1].source->rows();
    return rows.width == 0 ? nullptr : rows.From(first + n).As<char>();
  };
}

void TableFromRows::Insert(const RowsBlock& block, bool are_new) {
  const int64_t* keys = block.keys();
  const bool has_rows = block.Of(1) != nullptr && columns_[0].dtype == tf::DT_FLOAT &&
                        fresh_.options().first_value.element == Element::kFloat32 &&
                        block.row_bytes[1] == columns_[0].row_bytes();
  const auto* rows = has_rows ? static_cast<const float*>(block.Of(1)) : nullptr;
  if (part_keys_ != nullptr) {
    call_.CopyFromHost(part_keys_, keys, block.count);
    keys = part_keys_;
    if (has_rows) {
      call_.CopyFromHost(part_rows_, rows, block.count * fresh_.options().dim);
      rows = part_rows_;
    }
  }
  fresh_.table.FindOrInsert(call_, {block.count, keys, /*are_distinct=*/false, rows}, fresh_.planes,
                            row_ids_);
  for (size_t i = are_new && has_rows ? 1 : 0; i < columns_.size(); ++i) {
    if (const void* numbers = block.Of(1 + i))
      columns_[i].source->FromHost(block.count, row_ids_, numbers, block.row_bytes[1 + i]);
  }
}

/// As Table::Append. The table holds the keys once AreRepeated has returned.
void TableFromRows::Append(const RowsBlock& block) {
  const int64_t first = num_appended_;
  if (first == 0) to_append_.reserve(static_cast<size_t>(std::min(num_keys_, kKeysToAppend)));
  to_append_.insert(to_append_.end(), block.keys(), block.keys() + block.count);
  num_appended_ += block.count;
  const bool fit = num_appended_ <= fresh_.options().capacity;  // else the table reports it now
  const auto num_waiting = static_cast<int64_t>(to_append_.size());
  if (!fit || num_waiting + block.count > kKeysToAppend) AppendWaiting();
  // More may come than were announced: a rank may own more keys than others.
  fresh_.planes.ForEach([&](Plane& plane) { plane.Reserve(num_appended_); });
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (const void* numbers = block.Of(1 + i))
      columns_[i].source->FromHostInOrder(block.count, first, numbers);
  }
  if (fresh_.planes.salts != nullptr) WriteSalts(first, block.count, block.keys());
  for (const Planes::Slot& slot : other_slots_) {
    if (slot.initial_value == 0) continue;
    slot.plane->ExpectRows(first + block.count);
    call_.engine().Fill(call_, FloatsOf(slot.plane->data().From(first)),
                        block.count * slot.plane->width(), slot.initial_value);
  }
}

void TableFromRows::WriteSalts(int64_t first_row, int64_t count, const int64_t* keys) {
  std::vector<Bfloat16> salts(static_cast<size_t>(count));
  std::transform(keys, keys + count, salts.begin(), SaltOf);
  fresh_.planes.salts->ExpectRows(first_row + count);
  call_.CopyFromHost(fresh_.planes.salts->data().From(first_row).As<Bfloat16>(), salts.data(),
                     count);
}

bool TableFromRows::AreRepeated() {
  AppendWaiting();
  const int64_t num_keys = fresh_.table.Size(call_).num_keys;
  return num_repeated_ > 0 || num_keys != num_appended_ + num_inserted_;
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

void FillExisting(OpCall& call, Table& table, RowsSource& source, size_t number, Column* column) {
  const int64_t most = column->RowsAtOnce();
  int64_t *keys = nullptr, *row_ids = nullptr;  // on the device
  std::vector<int64_t> found;
  std::vector<char> rows;
  source.ForEachBlock([&](const RowsBlock& block) {
    if (keys == nullptr) {
      keys = call.Temporary<int64_t>(most);
      row_ids = call.Temporary<int64_t>(most);
    }
    call.CopyFromHost(keys, block.keys(), block.count);
    table.Find(call, block.count, keys, row_ids);
    found.resize(static_cast<size_t>(block.count));
    call.CopyToHost(found.data(), row_ids, block.count);
    const int64_t row_bytes = block.row_bytes[number];
    const auto* numbers = static_cast<const char*>(block.Of(number));
    rows.clear();
    for (size_t i = 0; i < found.size(); ++i) {
      const char* row = numbers + static_cast<int64_t>(i) * row_bytes;
      if (found[i] >= 0) rows.insert(rows.end(), row, row + row_bytes);
    }
    found.erase(std::remove_if(found.begin(), found.end(), [](int64_t id) { return id < 0; }),
                found.end());
    const auto num_found = static_cast<int64_t>(found.size());
    call.CopyFromHost(row_ids, found.data(), num_found);
    column->source->FromHost(num_found, row_ids, rows.data(), row_bytes);
  });
}

}  // namespace sok
