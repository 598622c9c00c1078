// SPDX-License-Identifier: Apache-2.0
// Options of a table, on any engine.
#pragma once

#include <cstdint>
#include <string>

#include "ops/base/placement.h"
#include "ops/engine/first_value.h"

namespace sok {

/// Row id of a key that the table does not hold.
constexpr int64_t kNoRow = -1;

/// Most rows of a table on one rank, and the capacity of a table that declares none.
constexpr int64_t kMaxRows = (int64_t{1} << 32) - 1;

struct TableOptions {
  std::string name;                                   // appears in error messages
  std::string raise_capacity = "raise the capacity";  // how they say that to its user
  int64_t dim = 1;                                    // floats in an embedding row
  int64_t capacity = 0;                               // rows; a limit, not an allocation
  /// false: the row of a key is placement.LocalKey(key), below the capacity.
  bool use_hash_index = true;
  Placement placement;
  FirstValue first_value;
};

/// Most floats of a row: 1 GiB. The size of a batch of such rows still fits into an int64.
constexpr int64_t kMaxDim = int64_t{1} << 28;

/// Throws kInvalidArgument for a dim or capacity below 1, a dim above kMaxDim, a rank outside
/// [0, num_ranks), and first values of kind kRows without rows.
void CheckTableOptions(const TableOptions& options);

/// Throws kInvalidArgument for a key that has no row in a table without a hash index because it is
/// out of range or another rank's.
[[noreturn]] void ThrowForeignKey(const TableOptions& options, int64_t key);

/// Throws kInvalidArgument: a gradient refers to a row that the table does not have.
[[noreturn]] void ThrowNoSuchRow(const TableOptions& options, int64_t row_id, int64_t num_rows);

/// Throws kOutOfCapacity: a table that holds `num_keys` keys cannot take `num_new_keys` more, while
/// `num_kept` rows of evicted keys are not reusable yet. `most_rows` is the engine's limit.
[[noreturn]] void ThrowFull(const TableOptions& options, int64_t most_rows, int64_t num_keys,
                            int64_t num_kept, int64_t num_new_keys);

}  // namespace sok
