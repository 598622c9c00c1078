// SPDX-License-Identifier: Apache-2.0
// Streams a table's contents between the engine's memory and the host's, in parts of little memory.
#ifndef SOK_OPS_TF_TABLES_TABLE_CONTENTS_H_
#define SOK_OPS_TF_TABLES_TABLE_CONTENTS_H_

#include <cstdint>
#include <vector>

#include "ops/tf/tables/table_resource.h"

namespace sok {

/// How many rows of `width` floats are moved at a time.
int64_t RowsOfPart(int64_t width);

/// Moves rows between a plane and the host. row_ids are on the device, values on the host.
class RowMover {
 public:
  /// For any number of rows at a time, at most `most_rows`.
  RowMover(OpCall& call, Plane& plane, int64_t most_rows);
  /// For memory that is not a table's plane.
  RowMover(OpCall& call, const RowsView& rows, int64_t most_rows);

  int64_t width() const { return width_; }
  /// The memory of the plane, on the device.
  RowsView rows() const { return plane_ == nullptr ? rows_ : plane_->data(); }

  /// values[i] = row row_ids[i] of the plane.
  void ToHost(int64_t num_rows, const int64_t* row_ids, float* values);
  /// Sets row row_ids[i] of the plane to values[i].
  void FromHost(int64_t num_rows, const int64_t* row_ids, const float* values);
  /// A hint that rows [0, num_rows) of the plane will be written.
  void ExpectRows(int64_t num_rows);
  /// Sets rows [first_row, first_row + num_rows) of the plane to `values`, unless they are already
  /// there.
  void FromHostInOrder(int64_t num_rows, int64_t first_row, const float* values);

 private:
  OpCall& call_;
  Plane* const plane_;
  const RowsView rows_;
  const int64_t width_;
  float* part_ = nullptr;  // on the device; nullptr if that is the host's memory
};

/// Reads a table key by key without changing it. With a hash index: the keys that it holds now, in
/// the order of row ids. Without one: every key of the table's range on this rank, ascending; rows
/// that were never used have their first values. The view must stay locked, so that rows keep their
/// keys; steps may change values meanwhile.
class TableContents {
 public:
  TableContents(OpCall& call, const TableView& view);

  const TableOptions& options() const { return view_.options(); }
  int64_t size() const { return size_; }
  // Copy entries [begin, begin + count) to the host.
  void ReadKeys(int64_t begin, int64_t count, int64_t* keys);
  void ReadRows(int64_t begin, int64_t count, float* rows);
  void ReadSlot(const Planes::Slot& slot, int64_t begin, int64_t count, float* rows);

 private:
  void FindRange(int64_t begin, int64_t count);
  template <typename FillAbsent>
  void ReadPlane(const Plane& plane, int64_t begin, int64_t count, float* values,
                 const FillAbsent& fill_absent);

  OpCall& call_;
  const TableView& view_;
  TableEntries held_;  // with a hash index
  int64_t size_;
  int64_t part_ = 0;  // rows of any plane that are read at a time
  // Buffers for one part, on the device.
  int64_t* part_keys_ = nullptr;
  int64_t* part_row_ids_ = nullptr;
  float* part_rows_ = nullptr;
};

/// Fills an empty table with keys and rows from the host.
class TableFiller {
 public:
  /// `num_keys` keys will come in all, at most `most_at_once` at a time.
  TableFiller(OpCall& call, const TableView& fresh, int64_t num_keys, int64_t most_at_once);
  TableFiller(OpCall& call, const TableView& fresh, int64_t num_keys)
      : TableFiller(call, fresh, num_keys, num_keys) {}

  /// Announces more keys: `num_keys` in all.
  void Expect(int64_t num_keys) { fresh_.table.Reserve(call_, num_keys, fresh_.planes); }

  /// Inserts at most RowsOfPart(dim) keys, distinct and new. Returns their row ids, on the device,
  /// valid until the next call. `are_distinct`: false if unchecked; keys that the table already
  /// holds then keep their rows.
  const int64_t* Insert(int64_t count, const int64_t* keys, const float* rows,
                        bool are_distinct = true);

  /// Instead of Insert, for a table with a hash index and unchecked keys: as Table::Append. Returns
  /// the row of the first key. The caller writes the rows in all planes. The table holds the keys
  /// once EndAppending has returned.
  int64_t Append(int64_t count, const int64_t* keys);

  /// Returns the number of repeated keys.
  int64_t EndAppending();

 private:
  void AppendWaiting();

  OpCall& call_;
  const TableView& fresh_;
  int64_t* row_ids_;
  int64_t* part_keys_ = nullptr;  // on the device; nullptr if that is the host's memory
  float* part_rows_ = nullptr;
  const int64_t num_keys_;          // expected keys, as far as known
  const int64_t most_;              // capacity of part_keys_ and row_ids_
  std::vector<int64_t> to_append_;  // large batches are faster: see KeyIndex::Append
  int64_t num_appended_ = 0;        // including these
  int64_t num_repeated_ = 0;
};

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_TABLE_CONTENTS_H_
