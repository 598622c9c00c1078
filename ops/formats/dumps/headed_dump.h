// SPDX-License-Identifier: Apache-2.0
// Files of SparseOperationKit 2's dumps: an array behind a header of 296 bytes. A table T has the
// files T-key, T-weight and T-<optimizer>-<slot>. The note T-note, which SparseOperationKit does
// not have, makes them one dump.
#pragma once

#include <string>
#include <vector>

#include "ops/formats/dumps/dump_format.h"

namespace sok {

/// A slot of an optimizer, with names as in the files.
struct DumpedSlot {
  std::string optimizer, slot;
  /// Another name under which the optimizer may have been saved; '' if there is none.
  std::string other_optimizer;
};

class HeadedDump : public DumpFormat {
 public:
  /// `name`: of the table, any characters. `key_type`: of keys to write.
  HeadedDump(const std::string& folder, const std::string& name, StoredType key_type,
             std::vector<DumpedSlot> slots);

  /// The beginning of a table's file names: its name, with '_' for punctuation.
  static std::string StemOf(const std::string& name);

  std::string note() const override { return stem_ + "-note"; }
  std::vector<NewColumn> NewColumns() const override;
  std::string TextOfNote(const DumpNote& note, const std::vector<int64_t>& widths,
                         int64_t num_rows) const override;
  DumpNote Parse(const std::string& text) const override;
  std::vector<StoredColumn> Columns(const FilesNow& now) const override;

 private:
  enum class Kind { kKeys, kRows, kSlot };
  std::string PlaceOf(const DumpedSlot& slot, const std::string& optimizer) const;
  std::string Header(Kind kind, const std::string& slot, StoredType type) const;
  StoredColumn Column(const FilesNow& now, const std::string& place, Kind kind) const;

  const std::string folder_, name_, stem_;
  const StoredType key_type_;
  const std::vector<DumpedSlot> slots_;
};

}  // namespace sok
