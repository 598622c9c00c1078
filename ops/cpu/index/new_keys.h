// SPDX-License-Identifier: Apache-2.0
// What both CPU tables do with the keys of a batch that they do not hold, and with the rows of a
// batch. No index, no locks.
#ifndef SOK_OPS_CPU_INDEX_NEW_KEYS_H_
#define SOK_OPS_CPU_INDEX_NEW_KEYS_H_

#include <cstdint>
#include <vector>

#include "ops/base/threads/executor.h"
#include "ops/engine/table.h"

namespace sok {

/// Makes planes large enough for row ids below `num_rows`. Throws kFailedPrecondition for one that
/// would have to move.
void MakeRoom(const TableOptions& options, const Planes& planes, int64_t num_rows);

/// As Table::Reserve, for the planes alone.
void ReservePlanes(const Planes& planes, int64_t num_rows);

/// The position of the first of `row_ids` outside [begin_row, end_row), or the count.
int64_t FirstOutside(int64_t count, const int64_t* row_ids, int64_t begin_row, int64_t end_row);

/// Throws as ThrowNoSuchRow for the first of `row_ids` that is num_rows or more.
void CheckRowsToUpdate(const TableOptions& options, int64_t num_rows, int64_t count,
                       const int64_t* row_ids);

/// The keys of a batch whose row id is kNoRow, each once, in the order of their first appearance.
class NewKeys {
 public:
  /// Throws kInvalidArgument when more than INT32_MAX of the keys have no row.
  NewKeys(const std::string& table_name, int64_t num_missing, int64_t num_keys,
          const int64_t* keys,     // [num_keys]
          const int64_t* row_ids,  // [num_keys], of which num_missing are kNoRow
          bool keys_are_distinct);

  int64_t size() const { return static_cast<int64_t>(keys.size()); }

  /// Gives the new rows their first value in every plane. `row_ids` must be set, and the planes
  /// have room for them.
  void WriteRows(Executor& executor, const TableOptions& options,
                 const float* initial_rows,  // [num_keys of the batch, dim], or nullptr
                 const Planes& planes) const;

  /// Puts the new rows' ids at all places of the batch where their keys stand.
  void CopyRowIdsTo(int64_t* batch_row_ids) const;

  std::vector<int64_t> keys;     // [size]
  std::vector<int64_t> row_ids;  // [size], filled in by the table

 private:
  size_t NumberAt(size_t i) const {
    return numbers_.empty() ? i : static_cast<size_t>(numbers_[i]);
  }
  std::vector<int64_t> FirstPlaces() const;

  std::vector<int64_t> places_;  // [num_missing]: positions in the batch without a row, ascending
  // [num_missing]: which of `keys` stands there; empty where all are distinct: the i-th.
  std::vector<int32_t> numbers_;
};

}  // namespace sok

#endif  // SOK_OPS_CPU_INDEX_NEW_KEYS_H_
