// SPDX-License-Identifier: Apache-2.0
// A table's columns on their way to files and back. All have one row for each key, in the same
// order: first the keys, int64; then rows and slots, float32.
#ifndef SOK_OPS_FORMATS_DUMPS_ROWS_H_
#define SOK_OPS_FORMATS_DUMPS_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace sok {

/// Takes the columns, one after the other.
class RowsSink {
 public:
  virtual ~RowsSink() = default;
  /// Appends rows to a column; the columns before it are complete.
  virtual void Append(size_t column, int64_t num_rows, int64_t width, const char* data) = 0;
};

/// Has the columns.
class RowsSource {
 public:
  virtual ~RowsSource() = default;
  virtual int64_t num_rows() const = 0;
  virtual size_t num_columns() const = 0;
  virtual int64_t width(size_t column) const = 0;
  /// Reads rows [first, first + count) of a column, which must follow those read before. With the
  /// last ones the checksums have been verified.
  virtual void Read(size_t column, int64_t first, int64_t count, char* to) = 0;
};

}  // namespace sok

#endif  // SOK_OPS_FORMATS_DUMPS_ROWS_H_
