// SPDX-License-Identifier: Apache-2.0
// A table that owns its rows, as the Python class needs it. No Python.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/base/threads/executor.h"
#include "ops/base/threads/fair_shared_mutex.h"
#include "ops/base/threads/forks.h"
#include "ops/engine/engine.h"

namespace sok {

/// All methods are thread-safe and atomic for each other. Arrays are in the engine's memory. On a
/// device, calls run on `stream`, and those that need not wait return before their kernels have
/// run. In a child of fork(), calls run on the caller's thread; they throw kFailedPrecondition if
/// another thread was in a call at the fork.
class StoredTable {
 public:
  /// Calls on the host share `num_threads` threads with all tables that use the same number.
  StoredTable(Engine& engine, const TableOptions& options, int num_threads);
  ~StoredTable();
  StoredTable(const StoredTable&) = delete;
  StoredTable& operator=(const StoredTable&) = delete;

  int64_t dim() const { return table_->options().dim; }
  int64_t size() const { return Size().num_keys; }
  int64_t index_bytes() const;
  /// Bytes of the rows assigned since the last Clear; on a device, bytes allocated for rows.
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

  /// Adds values[i] to the row of keys[i] and returns num_keys. If the table lacks a key, changes
  /// nothing and returns the position of the first such key. Waits.
  int64_t ScatterAdd(DeviceStream stream, int64_t num_keys,
                     const int64_t* keys,   // [num_keys]
                     const float* values);  // [num_keys, dim]

  /// As ScatterAdd, but replaces the row; the last of several values for one key wins.
  int64_t Assign(DeviceStream stream, int64_t num_keys,
                 const int64_t* keys,   // [num_keys]
                 const float* values);  // [num_keys, dim]

  /// As Table::Erase.
  int64_t Erase(DeviceStream stream, int64_t num_keys, const int64_t* keys);

  /// Writes all keys, in the order of row ids, and their rows; returns their number. Writes nothing
  /// if that is above `capacity`.
  int64_t Export(DeviceStream stream, int64_t capacity,
                 int64_t* keys,  // [capacity]
                 float* rows);   // [capacity, dim]

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
  // Held shared to read rows or to write rows that are not visible yet; exclusively to change or
  // erase rows, or to move the plane.
  mutable FairSharedMutex rows_mutex_;
};

}  // namespace sok
