// SPDX-License-Identifier: Apache-2.0
// The hash-indexed CPU table: locks, row ids and limits around a KeyIndex.
#include "ops/table/hash_table.h"

#include <algorithm>
#include <atomic>
#include <shared_mutex>

#include "ops/base/error.h"
#include "ops/table/new_keys.h"

namespace sok {
namespace {

constexpr int64_t kFindNanoseconds = 20;  // a key in a large index, one thread

}  // namespace

int64_t CpuHashTable::size() const {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  return index_.size();
}

int64_t CpuHashTable::num_rows() const {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  return num_rows_;
}

int64_t CpuHashTable::index_bytes() const {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  return index_.num_bytes() + static_cast<int64_t>(free_rows_.capacity() * sizeof(uint32_t));
}

void CpuHashTable::Find(Executor& executor, int64_t num_keys, const int64_t* keys,
                        int64_t* row_ids) {
  FindShared(executor, num_keys, keys, row_ids);
}

/// The parts of the loop take no lock: threads of the executor may be needed by whoever waits for
/// this one.
CpuHashTable::FindResult CpuHashTable::FindShared(Executor& executor, int64_t num_keys,
                                                  const int64_t* keys, int64_t* row_ids) const {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  std::atomic<int64_t> num_missing{0};
  executor.ParallelFor(num_keys, kFindNanoseconds, [&](int64_t begin, int64_t end) {
    num_missing += index_.Find(end - begin, keys + begin, row_ids + begin);
  });
  return {num_missing, version_};
}

void CpuHashTable::FindOrInsert(Executor& executor, int64_t num_keys, const int64_t* keys,
                                bool keys_are_distinct, const float* initial_rows,
                                const RowPlanes& planes, int64_t* row_ids) {
  FindResult found = FindShared(executor, num_keys, keys, row_ids);
  if (found.num_missing == 0) return;
  std::lock_guard<std::mutex> writer(writer_mutex_);
  if (version_ != found.version) found = FindShared(executor, num_keys, keys, row_ids);
  NewKeys new_keys(options_.name, found.num_missing, num_keys, keys, row_ids, keys_are_distinct);
  CheckFits(new_keys.size());
  new_keys.row_ids = NextRows(new_keys.size());
  new_keys.WriteRows(executor, options_, initial_rows, planes);
  {
    // Parts of its loops take no lock, as in FindShared.
    std::unique_lock<FairSharedMutex> lock(index_mutex_);
    index_.Insert(executor, new_keys.size(), new_keys.keys.data(), new_keys.row_ids.data());
    TakeRows(new_keys.size());
    ++version_;
  }
  new_keys.CopyRowIdsTo(row_ids);
}

void CpuHashTable::CheckFits(int64_t num_new_keys) const {
  const int64_t num_free = std::min(options_.capacity, KeyIndex::kMaxRowIds) - index_.size();
  if (num_new_keys <= num_free) return;
  if (options_.capacity <= KeyIndex::kMaxRowIds) {
    Throw(ErrorCode::kOutOfCapacity, "table '", options_.name, "' is full: its capacity is ",
          options_.capacity, " keys, it holds ", index_.size(), ", and ", num_new_keys,
          " new keys came; raise the capacity (max_vocabulary_size_per_gpu), or erase keys. "
          "The table is as it was before them");
  }
  Throw(ErrorCode::kOutOfCapacity, "table '", options_.name, "' is full: one rank holds at most ",
        KeyIndex::kMaxRowIds, " keys, it holds ", index_.size(), ", and ", num_new_keys,
        " new keys came; use more ranks, or erase keys. The table is as it was before them");
}

/// The rows that the next `count` new keys get; TakeRows makes it so.
std::vector<int64_t> CpuHashTable::NextRows(int64_t count) const {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  const size_t num_reused = std::min(rows.size(), free_rows_.size());
  std::copy_n(free_rows_.rbegin(), num_reused, rows.begin());
  for (size_t i = num_reused; i < rows.size(); ++i) {
    rows[i] = num_rows_ + static_cast<int64_t>(i - num_reused);
  }
  return rows;
}

void CpuHashTable::TakeRows(int64_t count) {
  const size_t num_reused = std::min(static_cast<size_t>(count), free_rows_.size());
  free_rows_.resize(free_rows_.size() - num_reused);
  num_rows_ += count - static_cast<int64_t>(num_reused);
}

int64_t CpuHashTable::Erase(int64_t num_keys, const int64_t* keys) {
  std::lock_guard<std::mutex> writer(writer_mutex_);
  std::unique_lock<FairSharedMutex> lock(index_mutex_);
  // Allocates first: once keys go, nothing may fail.
  free_rows_.reserve(free_rows_.size() + static_cast<size_t>(std::min(num_keys, index_.size())));
  ++version_;
  int64_t num_erased = 0;
  for (int64_t i = 0; i < num_keys; ++i) {
    const int64_t row_id = index_.Erase(keys[i]);
    if (row_id == kNoRow) continue;
    free_rows_.push_back(static_cast<uint32_t>(row_id));
    ++num_erased;
  }
  return num_erased;
}

TableEntries CpuHashTable::Export() const {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  std::vector<int64_t> keys(static_cast<size_t>(num_rows_));
  std::vector<bool> is_held(static_cast<size_t>(num_rows_));
  index_.ForEach([&](int64_t key, uint32_t row_id) {
    keys[row_id] = key;
    is_held[row_id] = true;
  });
  TableEntries entries;
  entries.keys.reserve(static_cast<size_t>(index_.size()));
  entries.row_ids.reserve(static_cast<size_t>(index_.size()));
  for (size_t row = 0; row < keys.size(); ++row) {
    if (!is_held[row]) continue;
    entries.keys.push_back(keys[row]);
    entries.row_ids.push_back(static_cast<int64_t>(row));
  }
  return entries;
}

void CpuHashTable::Clear() {
  std::lock_guard<std::mutex> writer(writer_mutex_);
  std::unique_lock<FairSharedMutex> lock(index_mutex_);
  index_.Clear();
  ++version_;
  num_rows_ = 0;
  free_rows_ = {};
}

}  // namespace sok
