// SPDX-License-Identifier: Apache-2.0
// The CPU table for keys of any value: a hash index, and row ids in the order of arrival.
#ifndef SOK_OPS_TABLE_HASH_TABLE_H_
#define SOK_OPS_TABLE_HASH_TABLE_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "ops/base/fair_shared_mutex.h"
#include "ops/table/key_index.h"
#include "ops/table/table.h"

namespace sok {

class CpuHashTable : public Table {
 public:
  explicit CpuHashTable(const TableOptions& options) : options_(options) {}

  const TableOptions& options() const override { return options_; }
  int64_t size() const override;
  int64_t num_rows() const override;
  int64_t index_bytes() const override;
  void Find(Executor& executor, int64_t num_keys, const int64_t* keys, int64_t* row_ids) override;
  void FindOrInsert(Executor& executor, int64_t num_keys, const int64_t* keys,
                    bool keys_are_distinct, const float* initial_rows, const RowPlanes& planes,
                    int64_t* row_ids) override;
  int64_t Erase(int64_t num_keys, const int64_t* keys) override;
  TableEntries Export() const override;
  void Clear() override;
  void InsertAll(Executor&, const RowPlanes&) override {}

 private:
  struct FindResult {
    int64_t num_missing;
    int64_t version;  // of the index that was read
  };
  FindResult FindShared(Executor& executor, int64_t num_keys, const int64_t* keys,
                        int64_t* row_ids) const;
  void CheckFits(int64_t num_new_keys) const;
  std::vector<int64_t> NextRows(int64_t count) const;
  void TakeRows(int64_t count);

  const TableOptions options_;

  // Whoever changes the table holds writer_mutex_ throughout, and index_mutex_ for as long as the
  // index itself changes; it is thus free to read everything. Readers hold index_mutex_ shared.
  mutable std::mutex writer_mutex_;
  mutable FairSharedMutex index_mutex_;
  KeyIndex index_;
  int64_t version_ = 0;  // number of changes of index_
  int64_t num_rows_ = 0;
  std::vector<uint32_t> free_rows_;  // rows of erased keys, the next one to hand out last
};

}  // namespace sok

#endif  // SOK_OPS_TABLE_HASH_TABLE_H_
