// SPDX-License-Identifier: Apache-2.0
// SparseOperationKit 1's pair of files for a table, keys and rows without headers, and a third file
// with a note that describes them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ops/formats/dumps/dump_format.h"

namespace sok {

class PairDump : public DumpFormat {
 public:
  /// Throws kInvalidArgument for a name that would lead out of the folder.
  ///
  /// `key_type`: int64 or uint32, of keys to write; of keys to read, if neither a note nor `dim`
  /// says it. `dim`: of the rows to read; 0: any.
  PairDump(const std::string& folder, const std::string& name, StoredType key_type, int64_t dim);

  std::string keys() const { return stem_ + "_keys.file"; }
  std::string rows() const { return stem_ + "_values.file"; }
  std::string note() const override { return stem_ + ".dump"; }

  std::vector<NewColumn> NewColumns() const override;
  std::string TextOfNote(const DumpNote& note, const std::vector<int64_t>& widths,
                         int64_t num_rows) const override;
  DumpNote Parse(const std::string& text) const override;
  std::vector<StoredColumn> Columns(const FilesNow& now) const override;

 private:
  void CheckAreThere(const FileSystem& files) const;
  std::vector<StoredColumn> Measured(std::vector<StoredColumn> columns,
                                     const std::array<int64_t, 2>& sizes) const;
  std::vector<StoredColumn> Noted(std::vector<StoredColumn> columns,
                                  const std::array<int64_t, 2>& sizes, const DumpNote& note) const;

  const std::string folder_, name_, stem_;
  const StoredType key_type_;
  const int64_t dim_;
};

}  // namespace sok
