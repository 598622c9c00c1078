// SPDX-License-Identifier: Apache-2.0
// What a table stores of each row, as a list. Saves, increments and restores loop over it, and know
// neither rows nor slots nor the history of keys by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/tables/contents/row_mover.h"

namespace sok {

/// The numbers of a column. row_ids are on the device, numbers on the host.
class ColumnSource {
 public:
  virtual ~ColumnSource() = default;
  /// to[i] = the numbers of row row_ids[i].
  virtual void ToHost(int64_t count, const int64_t* row_ids, void* to) = 0;
  /// Sets the numbers of row row_ids[i] to from[i], of row_bytes each; what these lack of the row
  /// stays there.
  virtual void FromHost(int64_t count, const int64_t* row_ids, const void* from,
                        int64_t row_bytes) = 0;
  /// Sets those of rows [first_row, first_row + count), unless they are already there.
  virtual void FromHostInOrder(int64_t count, int64_t first_row, const void* from) = 0;
  /// A hint that rows [0, num_rows) will be written.
  virtual void ExpectRows(int64_t /*num_rows*/) {}
  /// As RowMover; does nothing if the column is no plane.
  virtual void SetAbsent(RowMover::Absent /*absent*/) {}
  /// The memory of a plane; empty if the column is none.
  virtual RowsView rows() const { return {}; }
  /// Numbers beyond the largest float16 that have become it.
  virtual int64_t num_clamped() const { return 0; }
};

struct Column {
  std::string title;  // of its tensor in checkpoints
  tf::DataType dtype = tf::DT_FLOAT;
  tf::TensorShape row_shape;  // [width], or [] if it is one number
  std::unique_ptr<ColumnSource> source;

  int64_t row_bytes() const { return row_shape.num_elements() * tf::DataTypeSize(dtype); }
  /// How many rows are moved at a time.
  int64_t RowsAtOnce() const;
  tf::TensorShape ShapeOf(int64_t num_rows) const;
};

/// `element`: of the numbers on the host. Other rows than those widen, or are rounded to nearest;
/// numbers beyond the largest float16 become it.
Column ColumnOf(std::string title, RowMover rows, Element element);

/// The rows, then the slots of view.places, untitled; then what a table with a history
/// records of each key, titled by the name of the number. Those that it restores are at most
/// `latest`: a use after that, by another machine's clock, would keep steps from evicting the key.
/// `rows`: the element on the host of the rows.
std::vector<Column> ColumnsOf(OpCall& call, const TableView& view, Element rows,
                              int64_t latest = INT64_MAX);

}  // namespace sok
