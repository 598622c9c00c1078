// SPDX-License-Identifier: Apache-2.0
// The hash-indexed CPU table: locks, row ids and limits around a KeyIndex.
#include "ops/cpu/index/hash_table.h"

#include <algorithm>
#include <atomic>
#include <shared_mutex>

#include "ops/cpu/index/new_keys.h"
#include "ops/cpu/rows/apply_rule.h"

namespace sok {
namespace {

constexpr int64_t kNanosecondsToFindByHash = 20;  // per key in a large index, one thread

}  // namespace

TableSize CpuHashTable::Size(Call&) {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  return {index_.size(), num_rows_};
}

int64_t CpuHashTable::index_bytes() const {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  return index_.num_bytes() +
         static_cast<int64_t>((free_rows_.capacity() + kept_rows_.capacity()) * sizeof(uint32_t));
}

void CpuHashTable::Find(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) {
  FindShared(call.executor(), num_keys, keys, row_ids);
}

bool CpuHashTable::TryFind(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) {
  std::shared_lock<FairSharedMutex> lock(index_mutex_, std::try_to_lock);
  if (!lock) return false;
  FindLocked(call.executor(), num_keys, keys, row_ids);
  return true;
}

CpuHashTable::FindResult CpuHashTable::FindShared(Executor& executor, int64_t num_keys,
                                                  const int64_t* keys, int64_t* row_ids) const {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  return {FindLocked(executor, num_keys, keys, row_ids), version_};
}

/// Returns the number of keys without a row; needs index_mutex_. The parts of the loop take no
/// lock: a thread that waits for this mutex may be one of the executor's.
int64_t CpuHashTable::FindLocked(Executor& executor, int64_t num_keys, const int64_t* keys,
                                 int64_t* row_ids) const {
  std::atomic<int64_t> num_missing{0};
  executor.ParallelFor(num_keys, kNanosecondsToFindByHash, [&](int64_t begin, int64_t end) {
    num_missing += index_.Find(end - begin, keys + begin, row_ids + begin);
  });
  return num_missing;
}

void CpuHashTable::FindOrInsert(Call& call, const KeyBatch& batch, const Planes& planes,
                                int64_t* row_ids) {
  Executor& executor = call.executor();
  FindResult found = FindShared(executor, batch.num_keys, batch.keys, row_ids);
  if (found.num_missing == 0) return;
  std::lock_guard<std::mutex> writer(writer_mutex_);
  if (version_ != found.version) {
    found = FindShared(executor, batch.num_keys, batch.keys, row_ids);
  }
  NewKeys new_keys(options_.name, batch, found.num_missing, row_ids);
  CheckFits(new_keys.size());
  MakeRoom(options_, planes, NumRowsWith(new_keys.size()));
  new_keys.row_ids = NextRows(new_keys.size());
  new_keys.WriteRows(executor, options_, batch.initial_rows, planes);
  {
    // The parts of its loops take no lock, as in FindLocked.
    std::unique_lock<FairSharedMutex> lock(index_mutex_);
    index_.Insert(executor, new_keys.size(), new_keys.keys.data(), new_keys.row_ids.data());
    TakeRows(new_keys.size());
    ++version_;
  }
  new_keys.CopyRowIdsTo(row_ids);
}

AppendedKeys CpuHashTable::Append(Call& call, int64_t num_keys, const int64_t* keys,
                                  int64_t* /*row_ids_room*/) {
  std::lock_guard<std::mutex> writer(writer_mutex_);
  CheckFits(num_keys);
  std::unique_lock<FairSharedMutex> lock(index_mutex_);
  const AppendedKeys appended{num_rows_, index_.Append(call.executor(), num_keys, keys, num_rows_)};
  num_rows_ += num_keys;
  ++version_;
  return appended;
}

void CpuHashTable::CheckFits(int64_t num_new_keys) const {
  const auto num_kept = static_cast<int64_t>(kept_rows_.size());
  const int64_t num_used = index_.size() + num_kept;
  if (num_new_keys <= std::min(options_.capacity, kMaxRows) - num_used) return;
  ThrowFull(options_, kMaxRows, index_.size(), num_kept, num_new_keys);
}

/// One past the highest row id after `num_new_keys` inserts.
int64_t CpuHashTable::NumRowsWith(int64_t num_new_keys) const {
  const auto num_free = static_cast<int64_t>(free_rows_.size());
  return num_rows_ + std::max<int64_t>(0, num_new_keys - num_free);
}

/// The rows of the next `count` new keys; TakeRows then takes them.
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

void CpuHashTable::Reserve(Call& call, int64_t num_keys, const Planes& planes) {
  num_keys = std::min({num_keys, options_.capacity, kMaxRows});
  std::lock_guard<std::mutex> writer(writer_mutex_);
  ReservePlanes(planes, num_keys);
  std::unique_lock<FairSharedMutex> lock(index_mutex_);
  index_.Reserve(call.executor(), num_keys);
}

int64_t CpuHashTable::Erase(Call&, int64_t num_keys, const int64_t* keys) {
  return EraseInto(&free_rows_, num_keys, keys);
}

int64_t CpuHashTable::Evict(Call&, int64_t num_keys, const int64_t* keys) {
  return EraseInto(&kept_rows_, num_keys, keys);
}

void CpuHashTable::ReturnRows(Call&, int64_t num_rows) {
  std::lock_guard<std::mutex> writer(writer_mutex_);
  std::unique_lock<FairSharedMutex> lock(index_mutex_);  // index_bytes() reads the vectors
  const auto end = kept_rows_.begin() + std::min(num_rows, static_cast<int64_t>(kept_rows_.size()));
  free_rows_.insert(free_rows_.end(), kept_rows_.begin(), end);
  kept_rows_.erase(kept_rows_.begin(), end);
}

/// Appends the rows of the erased keys to `rows`.
int64_t CpuHashTable::EraseInto(std::vector<uint32_t>* rows, int64_t num_keys,
                                const int64_t* keys) {
  std::lock_guard<std::mutex> writer(writer_mutex_);
  std::unique_lock<FairSharedMutex> lock(index_mutex_);
  // Allocates first: nothing may fail once keys are erased.
  const size_t most = rows->size() + static_cast<size_t>(std::min(num_keys, index_.size()));
  if (most > rows->capacity()) rows->reserve(std::max(most, 2 * rows->capacity()));
  ++version_;
  int64_t num_erased = 0;
  for (int64_t i = 0; i < num_keys; ++i) {
    const int64_t row_id = index_.Erase(keys[i]);
    if (row_id == kNoRow) continue;
    rows->push_back(static_cast<uint32_t>(row_id));
    ++num_erased;
  }
  return num_erased;
}

TableEntries CpuHashTable::Export(Call& call) {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  int64_t* const keys = call.Temporary<int64_t>(num_rows_);
  int64_t* const row_ids = call.Temporary<int64_t>(num_rows_);
  const int64_t count = CopyEntries(call.executor(), 0, num_rows_, keys, row_ids);
  return {count, keys, row_ids};
}

int64_t CpuHashTable::ExportRows(Call& call, int64_t first_row, int64_t num_rows, int64_t* keys,
                                 int64_t* row_ids) {
  std::shared_lock<FairSharedMutex> lock(index_mutex_);
  return CopyEntries(call.executor(), first_row, std::min(num_rows, num_rows_ - first_row), keys,
                     row_ids);
}

/// Threads read parts of the index and write the entries of the rows they find there.
int64_t CpuHashTable::CopyEntries(Executor& executor, int64_t first_row, int64_t num_rows,
                                  int64_t* keys, int64_t* row_ids) const {
  constexpr int64_t kBucketNanoseconds = 10;
  if (num_rows <= 0) return 0;
  std::fill_n(row_ids, num_rows, kNoRow);
  executor.ParallelFor(index_.num_buckets(), kBucketNanoseconds, [&](int64_t begin, int64_t end) {
    index_.ForEachIn(begin, end, [&](int64_t key, uint32_t row_id) {
      const int64_t place = static_cast<int64_t>(row_id) - first_row;
      if (place < 0 || place >= num_rows) return;
      keys[place] = key;
      row_ids[place] = row_id;
    });
  });
  int64_t count = 0;
  for (int64_t place = 0; place < num_rows; ++place) {
    if (row_ids[place] == kNoRow) continue;
    keys[count] = keys[place];
    row_ids[count++] = row_ids[place];
  }
  return count;
}

void CpuHashTable::Clear(Call&) {
  std::lock_guard<std::mutex> writer(writer_mutex_);
  std::unique_lock<FairSharedMutex> lock(index_mutex_);
  index_.Clear();
  ++version_;
  num_rows_ = 0;
  free_rows_ = {};
  kept_rows_ = {};
}

int64_t CpuHashTable::FirstWithoutRow(Call&, int64_t count, const int64_t* row_ids) {
  return FirstOutside(count, row_ids, 0, num_rows_);
}

void CpuHashTable::ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes,
                               int64_t num_gradients, const int64_t* row_ids,
                               const float* gradients) {
  CheckRowsToUpdate(options_, num_rows_, num_gradients, row_ids);
  sok::ApplyToRows(call.executor(), rule, planes, num_gradients, row_ids, gradients);
}

/// Rows of erased keys are updated, too; nobody sees it, as a row is reset when it is reused.
void CpuHashTable::ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                                    int64_t num_gradients, const int64_t* row_ids,
                                    const float* gradients) {
  const int64_t num_rows = num_rows_;
  CheckRowsToUpdate(options_, num_rows, num_gradients, row_ids);
  sok::ApplyToRowsInUse(call.executor(), rule, planes, num_rows, nullptr, num_gradients, row_ids,
                        gradients);
}

}  // namespace sok
