// SPDX-License-Identifier: Apache-2.0
// How both CPU tables treat the missing keys and the rows of a batch. No index, no locks.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/base/threads/executor.h"
#include "ops/engine/table.h"

namespace sok {

/// Grows planes for row ids below `num_rows`. Throws kFailedPrecondition for a plane that would
/// have to move.
void MakeRoom(const TableOptions& options, const Planes& planes, int64_t num_rows);

/// As Table::Reserve, for the planes only.
void ReservePlanes(const Planes& planes, int64_t num_rows);

/// The position of the first of `row_ids` outside [begin_row, end_row), or `count`.
int64_t FirstOutside(int64_t count, const int64_t* row_ids, int64_t begin_row, int64_t end_row);

/// Throws ThrowNoSuchRow's error for the first of `row_ids` that is num_rows or more.
void CheckRowsToUpdate(const TableOptions& options, int64_t num_rows, int64_t count,
                       const int64_t* row_ids);

/// The distinct keys of a batch whose row id is kNoRow, in the order of their first appearance.
class NewKeys {
 public:
  /// Throws kInvalidArgument if more than INT32_MAX of the keys have no row.
  NewKeys(const std::string& table_name, const KeyBatch& batch, int64_t num_missing,
          const int64_t* row_ids);  // [num_keys], num_missing of them kNoRow

  int64_t size() const { return static_cast<int64_t>(keys.size()); }

  /// Gives the new rows their first value in every plane. `row_ids` must be set, and the planes
  /// must have memory for them.
  void WriteRows(Executor& executor, const TableOptions& options,
                 const float* initial_rows,  // [num_keys of the batch, dim], or nullptr
                 const Planes& planes) const;

  /// Writes the new row ids to all positions of the batch where their keys occur.
  void CopyRowIdsTo(int64_t* batch_row_ids) const;

  std::vector<int64_t> keys;     // [size]
  std::vector<int64_t> row_ids;  // [size], set by the table

 private:
  size_t NumberAt(size_t i) const {
    return numbers_.empty() ? i : static_cast<size_t>(numbers_[i]);
  }
  std::vector<int64_t> FirstPlaces() const;

  std::vector<int64_t>
      places_;  // [num_missing]: positions in the batch of keys without a row, ascending
  // [num_missing]: index into `keys` for each position; empty if all are distinct: then it is i.
  std::vector<int32_t> numbers_;
};

}  // namespace sok
