// SPDX-License-Identifier: Apache-2.0
// Keys of a table without a hash index: which row is whose, and which keys are none of it.
#ifndef SOK_OPS_TABLE_DIRECT_KEYS_H_
#define SOK_OPS_TABLE_DIRECT_KEYS_H_

#include <cstdint>

#include "ops/base/host_device.h"
#include "ops/table/table.h"

namespace sok {

/// How a table without a hash index numbers its rows.
struct DirectRows {
  int64_t capacity;  // rows
  int64_t world_size;
  int64_t rank;

  explicit DirectRows(const TableOptions& options)
      : capacity(options.capacity), world_size(options.world_size), rank(options.rank) {}

  /// The row of `key`; kNoRow if the table cannot hold it.
  SOK_HOST_DEVICE int64_t RowOf(int64_t key) const {
    const int64_t row = key / world_size;
    return key >= 0 && row < capacity && key - row * world_size == rank ? row : -1;
  }
  SOK_HOST_DEVICE int64_t KeyOf(int64_t row) const { return row * world_size + rank; }
};

/// Throws kInvalidArgument for a key that has no row: it is out of range, or another rank's.
[[noreturn]] void ThrowForeignKey(const TableOptions& options, int64_t key);

}  // namespace sok

#endif  // SOK_OPS_TABLE_DIRECT_KEYS_H_
