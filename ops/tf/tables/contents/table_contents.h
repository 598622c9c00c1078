// SPDX-License-Identifier: Apache-2.0
// Reads a table's contents into the host's memory, and moves rows, in parts of little memory.
#ifndef SOK_OPS_TF_TABLES_CONTENTS_TABLE_CONTENTS_H_
#define SOK_OPS_TF_TABLES_CONTENTS_TABLE_CONTENTS_H_

#include <cstdint>
#include <vector>

#include "ops/tf/tables/resource/table_resource.h"

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
  /// The keys, the rows, then the slots of view.places.
  size_t num_columns() const { return 2 + view_.places.size(); }
  /// In int64 of keys, else in floats.
  int64_t width(size_t column) const { return column == 0 ? 1 : PlaneAt(column).width(); }
  int64_t row_bytes(size_t column) const;
  /// Copies entries [begin, begin + count) to the host.
  void Read(size_t column, int64_t begin, int64_t count, void* to);

 private:
  const Plane& PlaneAt(size_t column) const;
  void ReadKeys(int64_t begin, int64_t count, int64_t* keys);
  void FindRange(int64_t begin, int64_t count);
  void FillAbsent(size_t column, int64_t first, float* read, int64_t part);

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

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_CONTENTS_TABLE_CONTENTS_H_
