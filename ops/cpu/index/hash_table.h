// SPDX-License-Identifier: Apache-2.0
// The CPU table for arbitrary keys: a hash index, and row ids in the order of insertion.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ops/base/threads/fair_shared_mutex.h"
#include "ops/cpu/rows/gather_rows.h"
#include "ops/engine/key_index.h"
#include "ops/engine/table.h"

namespace sok {

class CpuHashTable : public Table {
 public:
  explicit CpuHashTable(const TableOptions& options) : options_(options) {}

  const TableOptions& options() const override { return options_; }
  TableSize Size(Call& call) override;
  int64_t index_bytes() const override;
  void Find(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) override;
  bool TryFind(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) override;
  void GatherRows(Call& call, int64_t num_keys, const int64_t* keys, const Plane& rows,
                  float* out) override {
    sok::GatherRows(call, *this, num_keys, keys, rows, out);
  }
  void FindOrInsert(Call& call, const KeyBatch& batch, const Planes& planes,
                    int64_t* row_ids) override;
  AppendedKeys Append(Call& call, int64_t num_keys, const int64_t* keys,
                      int64_t* row_ids_room) override;
  void Reserve(Call& call, int64_t num_keys, const Planes& planes) override;
  int64_t Erase(Call& call, int64_t num_keys, const int64_t* keys) override;
  int64_t Evict(Call& call, int64_t num_keys, const int64_t* keys) override;
  void ReturnRows(Call& call, int64_t num_rows) override;
  TableEntries Export(Call& call) override;
  int64_t ExportRows(Call& call, int64_t first_row, int64_t num_rows, int64_t* keys,
                     int64_t* row_ids) override;
  void Clear(Call& call) override;
  void InsertAll(Call&, const Planes&) override {}
  int64_t FirstWithoutRow(Call& call, int64_t count, const int64_t* row_ids) override;
  void ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes, int64_t num_gradients,
                   const int64_t* row_ids, const float* gradients) override;
  void ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                        int64_t num_gradients, const int64_t* row_ids,
                        const float* gradients) override;

 private:
  struct FindResult {
    int64_t num_missing;
    int64_t version;  // of the index at the time
  };
  FindResult FindShared(Executor& executor, int64_t num_keys, const int64_t* keys,
                        int64_t* row_ids) const;
  int64_t FindLocked(Executor& executor, int64_t num_keys, const int64_t* keys,
                     int64_t* row_ids) const;
  int64_t CopyEntries(Executor& executor, int64_t first_row, int64_t num_rows, int64_t* keys,
                      int64_t* row_ids) const;
  int64_t EraseInto(std::vector<uint32_t>* rows, int64_t num_keys, const int64_t* keys);
  void CheckFits(int64_t num_new_keys) const;
  int64_t NumRowsWith(int64_t num_new_keys) const;
  std::vector<int64_t> NextRows(int64_t count) const;
  void TakeRows(int64_t count);

  const TableOptions options_;

  // Writers hold writer_mutex_ throughout and index_mutex_ while the index itself changes, so they
  // may read everything. Readers hold index_mutex_ shared.
  mutable std::mutex writer_mutex_;
  mutable FairSharedMutex index_mutex_;
  KeyIndex index_;
  int64_t version_ = 0;               // number of changes of index_
  std::atomic<int64_t> num_rows_{0};  // read without a lock when rows are updated
  std::vector<uint32_t> free_rows_;   // rows of erased keys, the next one to reuse last
  std::vector<uint32_t> kept_rows_;   // rows of evicted keys, in the order of eviction
};

}  // namespace sok
