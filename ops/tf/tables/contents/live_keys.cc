// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/live_keys.h"

#include <algorithm>
#include <utility>

namespace sok {
namespace {

constexpr int64_t kBlockRows = 4 << 20;  // the index is read once per block

}  // namespace

LiveKeys::LiveKeys(OpCall& call, const TableView& view) : call_(call), view_(view) {
  const TableSize size = view.table.Size(call);
  count_ = size.num_keys;
  num_rows_ = size.num_rows;
  is_dense_ = count_ == num_rows_;
  are_known_ = is_dense_;
  if (!is_dense_) bits_.resize(static_cast<size_t>((num_rows_ + 63) / 64));
}

const RowBits* LiveKeys::Bits() {
  if (is_dense_) return nullptr;
  if (!are_known_) {
    ForEachBlock(
        [&](int64_t count, const int64_t*, const int64_t* row_ids) { Note(count, row_ids); });
    are_known_ = true;
  }
  return &bits_;
}

void LiveKeys::KeepOnly(const RowBits& rows) {
  const RowBits* live = Bits();
  RowBits kept = rows;
  count_ = 0;
  for (size_t word = 0; word < kept.size(); ++word) {
    if (live != nullptr) kept[word] &= (*live)[word];
    count_ += __builtin_popcountll(kept[word]);
  }
  bits_ = std::move(kept);
  is_dense_ = has_all_ = false;
  are_known_ = true;
}

void LiveKeys::ForEachKeys(const Use& use) {
  if (count_ == 0) return;
  std::vector<int64_t> chosen;
  ForEachBlock([&](int64_t count, const int64_t* keys, const int64_t* row_ids) {
    if (!are_known_) Note(count, row_ids);
    if (has_all_) return use(count, keys);
    chosen.clear();
    for (int64_t i = 0; i < count; ++i) {
      if (HasKey(row_ids[i])) chosen.push_back(keys[i]);
    }
    if (!chosen.empty()) use(static_cast<int64_t>(chosen.size()), chosen.data());
  });
  are_known_ = true;
}

/// Calls use(count, keys, row_ids), on the host, for all keys of the table.
void LiveKeys::ForEachBlock(const UseKeysAndRows& use) {
  // Whole blocks, even if there are fewer rows: engines require it.
  const int64_t most = std::min(
      kBlockRows, (num_rows_ + Table::kRowsAtOnce - 1) / Table::kRowsAtOnce * Table::kRowsAtOnce);
  std::vector<int64_t> host_keys, host_row_ids;
  int64_t* keys = nullptr;
  int64_t* row_ids = nullptr;
  if (call_.engine().IsHostMemory()) {
    host_keys.resize(static_cast<size_t>(most));
    host_row_ids.resize(static_cast<size_t>(most));
    keys = host_keys.data();
    row_ids = host_row_ids.data();
  } else {
    keys = call_.Temporary<int64_t>(most);
    row_ids = call_.Temporary<int64_t>(most);
  }
  for (int64_t first = 0; first < num_rows_; first += most) {
    const int64_t count = view_.table.ExportRows(call_, first, most, keys, row_ids);
    if (count == 0) continue;
    const int64_t* ids = is_dense_ ? nullptr : call_.OnHost(row_ids, count, &host_row_ids);
    use(count, call_.OnHost(keys, count, &host_keys), ids);
  }
}

void LiveKeys::Note(int64_t count, const int64_t* row_ids) {
  for (int64_t i = 0; i < count; ++i)
    bits_[static_cast<size_t>(row_ids[i] / 64)] |= uint64_t{1} << (row_ids[i] % 64);
}

void LiveKeys::ForEachRowIds(int64_t most, const Use& use) {
  most = std::min(most, count_);
  if (most == 0) return;
  std::vector<int64_t> row_ids(static_cast<size_t>(most));
  int64_t* on_device =
      call_.engine().IsHostMemory() ? row_ids.data() : call_.Temporary<int64_t>(most);
  int64_t count = 0;
  const auto give = [&] {
    call_.CopyFromHost(on_device, row_ids.data(), count);
    use(count, on_device);
    count = 0;
  };
  for (int64_t row = 0; row < num_rows_; ++row) {
    if (!is_dense_ && row % 64 == 0 && bits_[static_cast<size_t>(row / 64)] == 0) {
      row += 63;
      continue;
    }
    if (!HasKey(row)) continue;
    row_ids[static_cast<size_t>(count++)] = row;
    if (count == most) give();
  }
  if (count > 0) give();
}

}  // namespace sok
