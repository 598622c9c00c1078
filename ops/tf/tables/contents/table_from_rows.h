// SPDX-License-Identifier: Apache-2.0
// Fills an empty table from sources of rows.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/formats/rows.h"
#include "ops/tf/tables/contents/columns.h"

namespace sok {

/// Slots that are not among the columns start at their initial values.
class TableFromRows {
 public:
  /// `num_keys` keys will come in all, as far as known, at most `most_at_once` at a time. `latest`
  /// as for ColumnsOf. Warns of numbers beyond the largest float16.
  TableFromRows(OpCall& call, const TableView& fresh, int64_t num_keys, int64_t most_at_once,
                int64_t latest = INT64_MAX);
  ~TableFromRows();
  TableFromRows(const TableFromRows&) = delete;
  TableFromRows& operator=(const TableFromRows&) = delete;

  /// The rows of later sources are of this element; until then, they are float32.
  void SetElementOfRows(Element element);

  /// Columns 1, 2, ... of sources.
  std::vector<Column>& columns() { return columns_; }

  enum class Keys {
    kAppended,  // get consecutive rows; only with a hash index
    kInserted,  // are not in the table yet
    kUpdated,   // may be in the table, and get other rows
  };
  /// Calls check(block), which may throw, before it puts each block in the table.
  void Fill(RowsSource& source, Keys keys, const RowsSource::Use& check);
  /// Call once all keys, appended or inserted, have come, before the table is used. Returns whether
  /// one was repeated.
  bool AreRepeated();

  /// Announces `num_keys` more keys.
  void Expect(int64_t num_keys);

 private:
  RowsSource::Place PlaceInPlanes(int64_t num_keys);
  void Insert(const RowsBlock& block, bool are_new);
  void Append(const RowsBlock& block);
  void AppendWaiting();
  void WriteSalts(int64_t first_row, int64_t count, const int64_t* keys);

  OpCall& call_;
  const TableView& fresh_;
  std::vector<Column> columns_;
  std::vector<Planes::Slot> other_slots_;
  int64_t* row_ids_;
  int64_t* part_keys_ = nullptr;  // on the device; nullptr if that is the host's memory
  float* part_rows_ = nullptr;
  const int64_t num_keys_;
  const int64_t most_;              // capacity of part_keys_ and row_ids_
  std::vector<int64_t> to_append_;  // large batches are faster: see KeyIndex::Append
  int64_t num_appended_ = 0;        // including these
  int64_t num_inserted_ = 0, num_repeated_ = 0;
  int64_t num_clamped_ = 0;
};

/// Sets a column, the source's `number`, for those keys of the source that the table holds.
void FillExisting(OpCall& call, Table& table, RowsSource& source, size_t number, Column* column);

}  // namespace sok
