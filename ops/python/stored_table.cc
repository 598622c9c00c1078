// SPDX-License-Identifier: Apache-2.0
// Rows beside a table, and who may touch them when.
#include "ops/python/stored_table.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>

#include "ops/base/error.h"
#include "ops/lookup/gather_rows.h"

namespace sok {
namespace {

constexpr int64_t kWriteNanoseconds = 30;  // a first value

size_t PlaneBytes(const TableOptions& options) {
  const auto row_bytes = static_cast<size_t>(options.dim) * sizeof(float);
  if (static_cast<size_t>(options.capacity) > SIZE_MAX / 4 / row_bytes) {
    Throw(ErrorCode::kOutOfMemory, "table '", options.name, "': ", options.capacity, " rows of ",
          options.dim, " floats are more than can be addressed; declare a smaller capacity");
  }
  return static_cast<size_t>(options.capacity) * row_bytes;
}

}  // namespace

StoredTable::StoredTable(const TableOptions& options, int num_threads)
    : executor_(MakeThreadExecutor(num_threads)),
      table_(Table::Create(Device::kCpu, options)),
      rows_(PlaneBytes(options), PageSize::kHuge) {}

void StoredTable::Find(int64_t num_keys, const int64_t* keys, int64_t* row_ids) {
  table_->Find(*executor_, num_keys, keys, row_ids);
}

void StoredTable::Insert(int64_t num_keys, const int64_t* keys, const float* initial_rows,
                         int64_t* row_ids) {
  std::shared_lock<FairSharedMutex> lock(rows_mutex_);
  table_->FindOrInsert(*executor_, num_keys, keys, /*keys_are_distinct=*/false, initial_rows,
                       {Row(0), {}}, row_ids);
}

void StoredTable::Gather(int64_t num_keys, const int64_t* keys, float* rows) {
  std::vector<int64_t> row_ids(static_cast<size_t>(num_keys));
  std::shared_lock<FairSharedMutex> lock(rows_mutex_);
  table_->Find(*executor_, num_keys, keys, row_ids.data());
  GatherRows(*executor_, num_keys, dim(), row_ids.data(), Row(0), rows);
  executor_->ParallelFor(num_keys, kWriteNanoseconds, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (row_ids[static_cast<size_t>(i)] != kNoRow) continue;
      WriteFirstValue(table_->options().first_value, keys[i], dim(), rows + i * dim());
    }
  });
}

template <typename Update>
int64_t StoredTable::UpdateRows(int64_t num_keys, const int64_t* keys, const float* values,
                                Update update) {
  std::vector<int64_t> row_ids(static_cast<size_t>(num_keys));
  std::unique_lock<FairSharedMutex> lock(rows_mutex_);
  table_->Find(*executor_, num_keys, keys, row_ids.data());
  const auto unknown = std::find(row_ids.begin(), row_ids.end(), kNoRow);
  if (unknown != row_ids.end()) return unknown - row_ids.begin();
  for (int64_t i = 0; i < num_keys; ++i) {
    update(values + i * dim(), Row(row_ids[static_cast<size_t>(i)]));
  }
  return num_keys;
}

int64_t StoredTable::ScatterAdd(int64_t num_keys, const int64_t* keys, const float* values) {
  return UpdateRows(num_keys, keys, values, [this](const float* value, float* row) {
    for (int64_t c = 0; c < dim(); ++c) row[c] += value[c];
  });
}

int64_t StoredTable::Assign(int64_t num_keys, const int64_t* keys, const float* values) {
  return UpdateRows(num_keys, keys, values,
                    [this](const float* value, float* row) { std::copy_n(value, dim(), row); });
}

int64_t StoredTable::Erase(int64_t num_keys, const int64_t* keys) {
  std::unique_lock<FairSharedMutex> lock(rows_mutex_);
  return table_->Erase(num_keys, keys);
}

StoredTable::Contents StoredTable::Export() {
  std::shared_lock<FairSharedMutex> lock(rows_mutex_);
  TableEntries entries = table_->Export();
  Contents contents;
  contents.rows.resize(entries.row_ids.size() * static_cast<size_t>(dim()));
  float* out = contents.rows.data();
  for (const int64_t row_id : entries.row_ids) out = std::copy_n(Row(row_id), dim(), out);
  contents.keys = std::move(entries.keys);
  return contents;
}

void StoredTable::Clear() {
  std::unique_lock<FairSharedMutex> lock(rows_mutex_);
  table_->Clear();
  rows_.Release(0, rows_.size_bytes());
}

}  // namespace sok
