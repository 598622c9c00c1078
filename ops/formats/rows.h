// SPDX-License-Identifier: Apache-2.0
// A table's columns on their way between tables and files. All have one row for each key, in the
// same order. Column 0 is the keys, int64; then rows, slots and whatever else the table stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace sok {

/// Takes the columns, one after the other.
class RowsSink {
 public:
  virtual ~RowsSink() = default;
  /// Begins the next column, with rows of `width` numbers.
  virtual void Begin(size_t column, int64_t width) = 0;
  /// Memory for the caller to fill with the column's next rows, valid until Append.
  virtual char* Buffer(size_t num_bytes) = 0;
  virtual void Append(size_t num_bytes) = 0;
  /// The column is complete.
  virtual void End() = 0;
};

/// Rows of some keys, on the host.
struct RowsBlock {
  const void* Of(size_t column) const { return column < data.size() ? data[column] : nullptr; }
  const int64_t* keys() const { return static_cast<const int64_t*>(data[0]); }

  int64_t count = 0;
  std::vector<const void*> data;   // by column; nullptr: the source lacks it
  std::vector<int64_t> row_bytes;  // by column
};

/// Has the columns, or some of them.
class RowsSource {
 public:
  virtual ~RowsSource() = default;
  /// About how many keys come.
  virtual int64_t num_keys() const = 0;

  using Use = std::function<void(const RowsBlock& block)>;
  /// The destination of a column's rows from the n-th key on; nullptr: memory of the source.
  using Place = std::function<char*(size_t column, int64_t n)>;
  /// Calls use(block) for all keys; a block is valid until `use` returns. Sources whose rows are in
  /// files as they are in memory read them to their `place`, if given. Once this returns, the
  /// checksums have been verified.
  virtual void ForEachBlock(const Use& use, const Place& place = nullptr) = 0;
};

}  // namespace sok
