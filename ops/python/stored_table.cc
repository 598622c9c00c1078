// SPDX-License-Identifier: Apache-2.0
// The rows of a table, and the locks around them.
#include "ops/python/stored_table.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace sok {

StoredTable::StoredTable(Engine& engine, const TableOptions& options, int num_threads)
    : engine_(engine),
      executor_(SharedThreadExecutor(num_threads)),
      table_(engine.MakeTable(options)),
      rows_(engine.MakePlane({options.capacity, options.dim})) {}

/// A table in the middle of a change when this process was forked cannot be destroyed: it is
/// leaked.
StoredTable::~StoredTable() {
  if (!calls_.WereInterrupted()) return;
  static_cast<void>(new std::shared_ptr<Table>(std::move(table_)));
  static_cast<void>(new std::shared_ptr<Plane>(std::move(rows_)));
}

TableSize StoredTable::Size() const {
  const auto in_progress = Begin();
  return table_->Size(*NewCall(nullptr));
}

int64_t StoredTable::index_bytes() const {
  const auto in_progress = Begin();
  return table_->index_bytes();
}

int64_t StoredTable::row_bytes() const {
  const auto in_progress = Begin();
  std::shared_lock<FairSharedMutex> lock(rows_mutex_);
  const int64_t num_rows = engine_.IsHostMemory() ? Size().num_rows : rows_->num_rows();
  return num_rows * dim() * static_cast<int64_t>(sizeof(float));
}

void StoredTable::Find(DeviceStream stream, int64_t num_keys, const int64_t* keys,
                       int64_t* row_ids) {
  const auto in_progress = Begin();
  table_->Find(*NewCall(stream), num_keys, keys, row_ids);
}

void StoredTable::Insert(DeviceStream stream, int64_t num_keys, const int64_t* keys,
                         const float* initial_rows, int64_t* row_ids) {
  const auto in_progress = Begin();
  const auto call = NewCall(stream);
  const auto insert = [&] {
    table_->FindOrInsert(*call, {num_keys, keys, false, initial_rows}, {rows_.get(), {}}, row_ids);
  };
  {
    std::shared_lock<FairSharedMutex> lock(rows_mutex_);
    if (!rows_->MovesWhenItGrows()) return insert();
    table_->Find(*call, num_keys, keys, row_ids);
    if (std::find(row_ids, row_ids + num_keys, kNoRow) == row_ids + num_keys) return;
  }
  std::unique_lock<FairSharedMutex> lock(rows_mutex_);
  rows_->Reserve(table_->Size(*call).num_rows + num_keys);
  insert();
}

void StoredTable::Gather(DeviceStream stream, int64_t num_keys, const int64_t* keys, float* rows) {
  const auto in_progress = Begin();
  std::shared_lock<FairSharedMutex> lock(rows_mutex_);
  table_->GatherRows(*NewCall(stream), num_keys, keys, *rows_, rows);
}

template <typename Update>
int64_t StoredTable::UpdateRows(DeviceStream stream, int64_t num_keys, const int64_t* keys,
                                const Update& update) {
  const auto in_progress = Begin();
  const auto call = NewCall(stream);
  auto* row_ids = call->Temporary<int64_t>(num_keys);
  std::unique_lock<FairSharedMutex> lock(rows_mutex_);
  table_->Find(*call, num_keys, keys, row_ids);
  const int64_t first_absent = table_->FirstWithoutRow(*call, num_keys, row_ids);
  if (first_absent == num_keys) update(*call, row_ids);
  return first_absent;
}

int64_t StoredTable::ScatterAdd(DeviceStream stream, int64_t num_keys, const int64_t* keys,
                                const float* values) {
  return UpdateRows(stream, num_keys, keys, [&](Call& call, const int64_t* row_ids) {
    engine_.AddToRows(call, num_keys, row_ids, values, rows_->data());
  });
}

int64_t StoredTable::Assign(DeviceStream stream, int64_t num_keys, const int64_t* keys,
                            const float* values) {
  return UpdateRows(stream, num_keys, keys, [&](Call& call, const int64_t* row_ids) {
    engine_.AssignRows(call, num_keys, row_ids, values, rows_->data());
  });
}

int64_t StoredTable::Erase(DeviceStream stream, int64_t num_keys, const int64_t* keys) {
  const auto in_progress = Begin();
  const auto call = NewCall(stream);
  std::unique_lock<FairSharedMutex> lock(rows_mutex_);
  return table_->Erase(*call, num_keys, keys);
}

int64_t StoredTable::Export(DeviceStream stream, int64_t capacity, int64_t* keys, float* rows) {
  const auto in_progress = Begin();
  const auto call = NewCall(stream);
  std::shared_lock<FairSharedMutex> lock(rows_mutex_);
  const TableEntries entries = table_->Export(*call);
  if (entries.count > capacity) return entries.count;
  engine_.CopyOnDevice(*call, keys, entries.keys,
                       entries.count * static_cast<int64_t>(sizeof(int64_t)));
  engine_.GatherRows(*call, entries.count, entries.row_ids, rows_->data(), rows);
  return entries.count;
}

void StoredTable::Clear(DeviceStream stream) {
  const auto in_progress = Begin();
  const auto call = NewCall(stream);
  std::unique_lock<FairSharedMutex> lock(rows_mutex_);
  table_->Clear(*call);
  rows_->Release();
}

}  // namespace sok
