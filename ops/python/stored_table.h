// SPDX-License-Identifier: Apache-2.0
// A table that owns its rows: what the Python class stands on. No Python.
#ifndef SOK_OPS_PYTHON_STORED_TABLE_H_
#define SOK_OPS_PYTHON_STORED_TABLE_H_

#include <cstdint>
#include <memory>

#include "ops/base/threads/executor.h"
#include "ops/base/threads/fair_shared_mutex.h"
#include "ops/base/threads/forks.h"
#include "ops/engine/engine.h"

namespace sok {

/// All calls may be made from several threads at once; each sees the others' whole or not at all.
/// Arrays are in the engine's memory. On a device, calls run on `stream`, and those that do not
/// have to wait return before they have run. In a child of fork() calls run on the caller's thread;
/// they throw kFailedPrecondition if another thread was in a call when the child was made.
class StoredTable {
 public:
  /// Calls on the host share `num_threads` threads with all tables that have as many.
  StoredTable(Engine& engine, const TableOptions& options, int num_threads);
  ~StoredTable();
  StoredTable(const StoredTable&) = delete;
  StoredTable& operator=(const StoredTable&) = delete;

  int64_t dim() const { return table_->options().dim; }
  int64_t size() const { return Size().num_keys; }
  int64_t index_bytes() const;
  /// Bytes of rows that were handed out since the last Clear; on a device, of memory for rows.
  int64_t row_bytes() const;

  /// As Table::Find.
  void Find(DeviceStream stream, int64_t num_keys,
            const int64_t* keys,  // [num_keys]
            int64_t* row_ids);    // [num_keys]

  /// As Table::FindOrInsert.
  void Insert(DeviceStream stream, int64_t num_keys,
              const int64_t* keys,        // [num_keys]
              const float* initial_rows,  // [num_keys, dim], or nullptr: first values
              int64_t* row_ids);          // [num_keys]

  /// rows[i] = the row of keys[i], or its first value if the table does not hold it.
  void Gather(DeviceStream stream, int64_t num_keys,
              const int64_t* keys,  // [num_keys]
              float* rows);         // [num_keys, dim]

  /// Adds values[i] to the row of keys[i]. Returns the position of the first key that the table
  /// does not hold, and changes nothing then; num_keys if it holds all. Waits.
  int64_t ScatterAdd(DeviceStream stream, int64_t num_keys,
                     const int64_t* keys,   // [num_keys]
                     const float* values);  // [num_keys, dim]

  /// As ScatterAdd, but the last of several values for one key takes the row's place.
  int64_t Assign(DeviceStream stream, int64_t num_keys,
                 const int64_t* keys,   // [num_keys]
                 const float* values);  // [num_keys, dim]

  /// As Table::Erase.
  int64_t Erase(DeviceStream stream, int64_t num_keys, const int64_t* keys);

  /// Writes all keys in the order of row ids, and their rows, and returns how many they are; where
  /// there is room for fewer, nothing is written.
  int64_t Export(DeviceStream stream, int64_t room,
                 int64_t* keys,  // [room]
                 float* rows);   // [room, dim]

  void Clear(DeviceStream stream);

 private:
  template <typename Update>
  int64_t UpdateRows(DeviceStream stream, int64_t num_keys, const int64_t* keys,
                     const Update& update);
  std::unique_ptr<Call> NewCall(DeviceStream stream) const {
    return engine_.MakeCall(*executor_, stream);
  }
  CallsInProgress::Call Begin() const { return {calls_, table_->options().name.c_str()}; }
  TableSize Size() const;

  Engine& engine_;
  const std::shared_ptr<Executor> executor_;
  std::shared_ptr<Table> table_;
  std::shared_ptr<Plane> rows_;
  mutable CallsInProgress calls_;
  // Shared by those who read rows, or write rows that nobody can see yet; alone for those who
  // change rows, let keys go or move the plane.
  mutable FairSharedMutex rows_mutex_;
};

}  // namespace sok

#endif  // SOK_OPS_PYTHON_STORED_TABLE_H_
