// SPDX-License-Identifier: Apache-2.0
// Reads the dump of a table, in any of the formats.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ops/formats/dumps/dump_format.h"
#include "ops/formats/rows.h"

namespace sok {

/// The files of a dump or, without a note, of SparseOperationKit, of which only the sizes can be
/// checked.
///
/// All methods throw kNotFound, kPermissionDenied and kIo as the file system reports them, and
/// kDataLoss, naming the file, for corrupt files.
class DumpSource : public RowsSource {
 public:
  /// `format` must outlive it. Throws kInvalidArgument for files that do not fit each other.
  DumpSource(const FileSystem& files, const DumpFormat& format);
  ~DumpSource() override;
  DumpSource(const DumpSource&) = delete;
  DumpSource& operator=(const DumpSource&) = delete;

  int64_t num_keys() const override;
  size_t num_columns() const { return columns_.size(); }
  int64_t width(size_t column) const;
  /// Reads rows [first, first + count) of a column, which must follow those read before.
  void Read(size_t column, int64_t first, int64_t count, char* to);
  void ForEachBlock(const Use& use, const Place& place = nullptr) override;

  const StoredColumn& stored(size_t column) const;
  /// Begins anew.
  void Rewind();

 private:
  class Column;

  void Open();
  bool HasAnotherNote() const;
  void CheckSum(const Column& column) const;

  const FileSystem& files_;
  const DumpFormat& format_;
  std::optional<DumpNote> note_;
  std::vector<std::unique_ptr<Column>> columns_;
};

}  // namespace sok
