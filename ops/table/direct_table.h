// SPDX-License-Identifier: Apache-2.0
// The CPU table without an index: row = key / world_size, and one bit a row: has its key come?
#ifndef SOK_OPS_TABLE_DIRECT_TABLE_H_
#define SOK_OPS_TABLE_DIRECT_TABLE_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "ops/base/reserved_memory.h"
#include "ops/table/direct_keys.h"
#include "ops/table/table.h"

namespace sok {

class CpuDirectTable : public Table {
 public:
  explicit CpuDirectTable(const TableOptions& options);

  const TableOptions& options() const override { return options_; }
  int64_t size() const override { return size_; }
  int64_t num_rows() const override { return num_rows_; }
  int64_t index_bytes() const override;
  void Find(Executor& executor, int64_t num_keys, const int64_t* keys, int64_t* row_ids) override;
  void FindOrInsert(Executor& executor, int64_t num_keys, const int64_t* keys,
                    bool keys_are_distinct, const float* initial_rows, const RowPlanes& planes,
                    int64_t* row_ids) override;
  int64_t Erase(int64_t num_keys, const int64_t* keys) override;
  TableEntries Export() const override;
  void Clear() override;
  void InsertAll(Executor& executor, const RowPlanes& planes) override;

 private:
  int64_t RowOf(int64_t key) const;

  uint64_t* Word(int64_t row) const { return static_cast<uint64_t*>(bits_.data()) + row / 64; }
  bool IsHeld(int64_t row) const;
  void SetHeld(int64_t row);
  int64_t FindLockFree(Executor& executor, int64_t num_keys, const int64_t* keys,
                       int64_t* row_ids) const;

  const TableOptions options_;
  const DirectRows rows_;
  ReservedMemory bits_;  // read at any time, written under writer_mutex_ after the rows are written
  std::mutex writer_mutex_;
  std::atomic<int64_t> size_{0};
  std::atomic<int64_t> num_rows_{0};
};

}  // namespace sok

#endif  // SOK_OPS_TABLE_DIRECT_TABLE_H_
