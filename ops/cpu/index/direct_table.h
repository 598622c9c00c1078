// SPDX-License-Identifier: Apache-2.0
// The CPU table without a hash index: row = local key, and one bit per row that tells whether its
// key has come.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "ops/cpu/index/row_set.h"
#include "ops/cpu/rows/gather_rows.h"
#include "ops/engine/table.h"

namespace sok {

class CpuDirectTable : public Table {
 public:
  explicit CpuDirectTable(const TableOptions& options);

  const TableOptions& options() const override { return options_; }
  TableSize Size(Call& call) override;
  int64_t index_bytes() const override;
  void Find(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) override;
  bool TryFind(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) override {
    Find(call, num_keys, keys, row_ids);
    return true;
  }
  void GatherRows(Call& call, int64_t num_keys, const int64_t* keys, const Plane& rows,
                  float* out) override {
    sok::GatherRows(call, *this, num_keys, keys, rows, out);
  }
  void FindOrInsert(Call& call, const KeyBatch& batch, const Planes& planes,
                    int64_t* row_ids) override;
  void Reserve(Call& call, int64_t num_keys, const Planes& planes) override;
  int64_t Erase(Call& call, int64_t num_keys, const int64_t* keys) override;
  /// A key keeps its row for ever.
  int64_t Evict(Call& call, int64_t num_keys, const int64_t* keys) override {
    return Erase(call, num_keys, keys);
  }
  void ReturnRows(Call&, int64_t) override {}
  TableEntries Export(Call& call) override;
  int64_t ExportRows(Call& call, int64_t first_row, int64_t num_rows, int64_t* keys,
                     int64_t* row_ids) override;
  void Clear(Call& call) override;
  void InsertAll(Call& call, const Planes& planes) override;
  int64_t FirstWithoutRow(Call& call, int64_t count, const int64_t* row_ids) override;
  void ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes, int64_t num_gradients,
                   const int64_t* row_ids, const float* gradients) override;
  void ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                        int64_t num_gradients, const int64_t* row_ids,
                        const float* gradients) override;

 private:
  int64_t RowOf(int64_t key) const;
  void ThrowFirstForeign(int64_t num_keys, const int64_t* keys) const;

  int64_t FindLockFree(Executor& executor, int64_t num_keys, const int64_t* keys,
                       int64_t* row_ids) const;

  const TableOptions options_;
  const int64_t most_rows_;  // rows of this rank
  RowSet rows_in_use_;       // changed under writer_mutex_, after rows are written
  std::mutex writer_mutex_;
  std::atomic<int64_t> size_{0};
  std::atomic<int64_t> num_rows_{0};
};

}  // namespace sok
