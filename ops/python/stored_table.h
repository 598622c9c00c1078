// SPDX-License-Identifier: Apache-2.0
// A table that owns its rows: what the Python class stands on. No Python.
#ifndef SOK_OPS_PYTHON_STORED_TABLE_H_
#define SOK_OPS_PYTHON_STORED_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/base/executor.h"
#include "ops/base/fair_shared_mutex.h"
#include "ops/base/reserved_memory.h"
#include "ops/table/table.h"

namespace sok {

/// All calls may be made from several threads at once; each sees the others' whole or not at all.
class StoredTable {
 public:
  StoredTable(const TableOptions& options, int num_threads);

  int64_t dim() const { return table_->options().dim; }
  int64_t capacity() const { return table_->options().capacity; }
  int64_t size() const { return table_->size(); }
  int64_t index_bytes() const { return table_->index_bytes(); }
  /// Bytes of rows that were handed out since the last Clear.
  int64_t row_bytes() const { return table_->num_rows() * RowBytes(); }

  /// As Table::Find.
  void Find(int64_t num_keys,
            const int64_t* keys,  // [num_keys]
            int64_t* row_ids);    // [num_keys]

  /// As Table::FindOrInsert.
  void Insert(int64_t num_keys,
              const int64_t* keys,        // [num_keys]
              const float* initial_rows,  // [num_keys, dim], or nullptr: first values
              int64_t* row_ids);          // [num_keys]

  /// rows[i] = the row of keys[i], or its first value if the table does not hold it.
  void Gather(int64_t num_keys,
              const int64_t* keys,  // [num_keys]
              float* rows);         // [num_keys, dim]

  /// Adds values[i] to the row of keys[i], in this order. Returns the position of the first key
  /// that the table does not hold, and changes nothing then; num_keys if it holds all.
  int64_t ScatterAdd(int64_t num_keys,
                     const int64_t* keys,   // [num_keys]
                     const float* values);  // [num_keys, dim]

  /// As ScatterAdd, but the last of several values for one key takes the row's place.
  int64_t Assign(int64_t num_keys,
                 const int64_t* keys,   // [num_keys]
                 const float* values);  // [num_keys, dim]

  /// As Table::Erase.
  int64_t Erase(int64_t num_keys, const int64_t* keys);

  struct Contents {
    std::vector<int64_t> keys;  // [size]
    std::vector<float> rows;    // [size, dim]
  };
  Contents Export();

  void Clear();

 private:
  template <typename Update>
  int64_t UpdateRows(int64_t num_keys, const int64_t* keys, const float* values, Update update);
  int64_t RowBytes() const { return dim() * static_cast<int64_t>(sizeof(float)); }
  float* Row(int64_t row_id) const { return static_cast<float*>(rows_.data()) + row_id * dim(); }

  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Table> table_;
  ReservedMemory rows_;  // [capacity, dim]
  // Shared by those who read rows, or write rows that nobody can see yet; alone for those who
  // change rows or let keys go.
  FairSharedMutex rows_mutex_;
};

}  // namespace sok

#endif  // SOK_OPS_PYTHON_STORED_TABLE_H_
