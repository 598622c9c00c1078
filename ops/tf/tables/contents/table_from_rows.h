// SPDX-License-Identifier: Apache-2.0
// Fills an empty table with keys and their columns from the host.
#ifndef SOK_OPS_TF_TABLES_CONTENTS_TABLE_FROM_ROWS_H_
#define SOK_OPS_TF_TABLES_CONTENTS_TABLE_FROM_ROWS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/tf/tables/contents/columns.h"

namespace sok {

/// Slots that are not among the columns start at their initial values.
class TableFromRows {
 public:
  /// `num_keys` keys will come in all, as far as known, at most `most_at_once` at a time.
  /// `are_distinct`: false if they are unchecked. `latest` as for ColumnsOf.
  TableFromRows(OpCall& call, const TableView& fresh, int64_t num_keys, int64_t most_at_once,
                bool are_distinct, int64_t latest = INT64_MAX);

  std::vector<Column>& columns() { return columns_; }
  /// Announces more keys: `num_keys` in all.
  void Expect(int64_t num_keys) { fresh_.table.Reserve(call_, num_keys, fresh_.planes); }

  /// The numbers of a column for all keys of a call; nullptr if they do not come.
  using NumbersOf = std::function<const void*(size_t column)>;

  /// Inserts at most RowsOfPart(dim) keys. Returns their row ids, on the device, valid until the
  /// next call. `are_fresh`: the table holds none of them, or they keep their rows.
  const int64_t* Insert(int64_t count, const int64_t* keys, const NumbersOf& numbers,
                        bool are_fresh = true);

  /// Instead of Insert, for a table with a hash index and unchecked keys: as Table::Append. Returns
  /// the row of the first key. The table holds the keys once EndAppending has returned.
  int64_t Append(int64_t count, const int64_t* keys, const NumbersOf& numbers);

  /// Returns the number of repeated keys.
  int64_t EndAppending();

 private:
  int64_t AppendKeys(int64_t count, const int64_t* keys);
  void AppendWaiting();

  OpCall& call_;
  const TableView& fresh_;
  std::vector<Column> columns_;
  std::vector<Planes::Slot> other_slots_;
  int64_t* row_ids_;
  int64_t* part_keys_ = nullptr;  // on the device; nullptr if that is the host's memory
  float* part_rows_ = nullptr;
  const int64_t num_keys_;
  const int64_t most_;  // capacity of part_keys_ and row_ids_
  const bool are_distinct_;
  std::vector<int64_t> to_append_;  // large batches are faster: see KeyIndex::Append
  int64_t num_appended_ = 0;        // including these
  int64_t num_repeated_ = 0;
};

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_CONTENTS_TABLE_FROM_ROWS_H_
