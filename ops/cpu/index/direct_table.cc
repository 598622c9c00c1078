// SPDX-License-Identifier: Apache-2.0
// The directly indexed CPU table. Readers take no lock: a row's bit is set, with release order,
// after the row is written.
#include "ops/cpu/index/direct_table.h"

#include <algorithm>

#include "ops/cpu/index/new_keys.h"
#include "ops/cpu/rows/apply_rule.h"

namespace sok {
namespace {

constexpr int64_t kNanosecondsToFindById = 8;

}  // namespace

CpuDirectTable::CpuDirectTable(const TableOptions& options)
    : options_(options),
      most_rows_(options.placement.NumRows(options.capacity)),
      rows_in_use_(most_rows_) {}

TableSize CpuDirectTable::Size(Call&) { return {size_, num_rows_}; }

int64_t CpuDirectTable::index_bytes() const { return (num_rows_ + 7) / 8; }

int64_t CpuDirectTable::RowOf(int64_t key) const {
  const int64_t row = options_.placement.RowOf(key, most_rows_);
  if (row < 0) ThrowForeignKey(options_, key);
  return row;
}

void CpuDirectTable::Find(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) {
  FindLockFree(call.executor(), num_keys, keys, row_ids);
}

void CpuDirectTable::ThrowFirstForeign(int64_t num_keys, const int64_t* keys) const {
  for (int64_t i = 0; i < num_keys; ++i) RowOf(keys[i]);
}

int64_t CpuDirectTable::FindLockFree(Executor& executor, int64_t num_keys, const int64_t* keys,
                                     int64_t* row_ids) const {
  std::atomic<int64_t> num_missing{0};
  std::atomic<bool> has_foreign{false};
  executor.ParallelFor(num_keys, kNanosecondsToFindById, [&](int64_t begin, int64_t end) {
    // Copies that writes to row_ids cannot alias, so the kind of placement is tested once.
    const Placement placement = options_.placement;
    const int64_t most_rows = most_rows_;
    const uint64_t* const words = rows_in_use_.words();
    int64_t num_missing_here = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = placement.RowOf(keys[i], most_rows);
      if (row < 0) {
        has_foreign = true;
        return;
      }
      const uint64_t word = __atomic_load_n(words + row / RowSet::kRowsPerWord, __ATOMIC_ACQUIRE);
      const bool is_present = (word & RowSet::Bit(row)) != 0;
      row_ids[i] = is_present ? row : kNoRow;
      num_missing_here += !is_present;
    }
    num_missing += num_missing_here;
  });
  if (has_foreign) ThrowFirstForeign(num_keys, keys);
  return num_missing;
}

void CpuDirectTable::FindOrInsert(Call& call, const KeyBatch& batch, const Planes& planes,
                                  int64_t* row_ids) {
  Executor& executor = call.executor();
  if (FindLockFree(executor, batch.num_keys, batch.keys, row_ids) == 0) return;
  std::lock_guard<std::mutex> writer(writer_mutex_);
  // Again: another writer may have inserted some of them meanwhile.
  const int64_t num_missing = FindLockFree(executor, batch.num_keys, batch.keys, row_ids);
  NewKeys new_keys(options_.name, batch, num_missing, row_ids);
  int64_t end_row = num_rows_;
  const Placement placement = options_.placement;
  new_keys.row_ids.reserve(new_keys.keys.size());
  for (const int64_t key : new_keys.keys) {
    new_keys.row_ids.push_back(placement.RowOf(key, most_rows_));
    end_row = std::max(end_row, new_keys.row_ids.back() + 1);
  }
  MakeRoom(options_, planes, end_row);
  new_keys.WriteRows(executor, options_, batch.initial_rows, planes);
  num_rows_ = end_row;  // first: who sees a bit may update the row
  for (const int64_t row : new_keys.row_ids) rows_in_use_.Add(row);
  size_ += new_keys.size();
  new_keys.CopyRowIdsTo(row_ids);
}

void CpuDirectTable::Reserve(Call&, int64_t, const Planes& planes) {
  ReservePlanes(planes, most_rows_);
}

int64_t CpuDirectTable::Erase(Call&, int64_t num_keys, const int64_t* keys) {
  for (int64_t i = 0; i < num_keys; ++i) RowOf(keys[i]);  // throws before anything changes
  std::lock_guard<std::mutex> writer(writer_mutex_);
  int64_t num_erased = 0;
  for (int64_t i = 0; i < num_keys; ++i) num_erased += rows_in_use_.Remove(RowOf(keys[i]));
  size_ -= num_erased;
  return num_erased;
}

TableEntries CpuDirectTable::Export(Call& call) {
  std::lock_guard<std::mutex> writer(writer_mutex_);
  int64_t* const keys = call.Temporary<int64_t>(size_);
  int64_t* const row_ids = call.Temporary<int64_t>(size_);
  int64_t count = 0;
  rows_in_use_.ForEach([&](int64_t row) {
    keys[count] = options_.placement.GlobalKey(row);
    row_ids[count++] = row;
  });
  return {count, keys, row_ids};
}

int64_t CpuDirectTable::ExportRows(Call&, int64_t first_row, int64_t num_rows, int64_t* keys,
                                   int64_t* row_ids) {
  std::lock_guard<std::mutex> writer(writer_mutex_);
  int64_t count = 0;
  rows_in_use_.ForEachIn(first_row, std::min<int64_t>(first_row + num_rows, num_rows_),
                         [&](int64_t row) {
                           keys[count] = options_.placement.GlobalKey(row);
                           row_ids[count++] = row;
                         });
  return count;
}

void CpuDirectTable::Clear(Call&) {
  std::lock_guard<std::mutex> writer(writer_mutex_);
  rows_in_use_.Clear();
  size_ = 0;
  num_rows_ = 0;
}

void CpuDirectTable::InsertAll(Call& call, const Planes& planes) {
  // In slices, to keep the lists of new keys small compared with the rows.
  constexpr int64_t kSliceRows = 1 << 16;
  std::vector<int64_t> keys;
  std::vector<int64_t> row_ids;
  for (int64_t begin = 0; begin < most_rows_; begin += kSliceRows) {
    keys.clear();
    const int64_t end = std::min(begin + kSliceRows, most_rows_);
    for (int64_t row = begin; row < end; ++row) keys.push_back(options_.placement.GlobalKey(row));
    row_ids.resize(keys.size());
    FindOrInsert(call, {end - begin, keys.data(), true}, planes, row_ids.data());
  }
}

int64_t CpuDirectTable::FirstWithoutRow(Call&, int64_t count, const int64_t* row_ids) {
  return FirstOutside(count, row_ids, 0, num_rows_);
}

void CpuDirectTable::ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes,
                                 int64_t num_gradients, const int64_t* row_ids,
                                 const float* gradients) {
  CheckRowsToUpdate(options_, num_rows_, num_gradients, row_ids);
  sok::ApplyToRows(call.executor(), rule, planes, num_gradients, row_ids, gradients);
}

void CpuDirectTable::ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                                      int64_t num_gradients, const int64_t* row_ids,
                                      const float* gradients) {
  CheckRowsToUpdate(options_, num_rows_, num_gradients, row_ids);
  const TableEntries in_use = Export(call);
  sok::ApplyToRowsInUse(call.executor(), rule, planes, in_use.count, in_use.row_ids, num_gradients,
                        row_ids, gradients);
}

}  // namespace sok
