// SPDX-License-Identifier: Apache-2.0
// The keys of a table and their row ids, in blocks, so that they never need a complete list.
#pragma once

#include <cstdint>
#include <functional>

#include "ops/tf/tables/contents/rows_to_sink.h"
#include "ops/tf/tables/resource/row_fingerprints.h"
#include "ops/tf/tables/resource/table_resource.h"

namespace sok {

/// In the order of row ids. Nobody else may change the table meanwhile.
class LiveKeys : public KeysInOrder {
 public:
  LiveKeys(OpCall& call, const TableView& view);

  int64_t count() const override { return count_; }
  int64_t num_rows() const { return num_rows_; }

  /// One bit per row, set if it has a key; nullptr: all rows have one.
  const RowBits* Bits();
  /// Restricts it to the keys of these rows; rows without a key are ignored.
  void KeepOnly(const RowBits& rows);

  void ForEachKeys(const Use& use) override;
  void ForEachRowIds(int64_t most, const Use& use) override;

 private:
  using UseKeysAndRows =
      std::function<void(int64_t count, const int64_t* keys, const int64_t* row_ids)>;
  void ForEachBlock(const UseKeysAndRows& use);
  void Note(int64_t count, const int64_t* row_ids);
  bool HasKey(int64_t row) const {
    return is_dense_ || ((bits_[static_cast<size_t>(row / 64)] >> (row % 64)) & 1) != 0;
  }

  OpCall& call_;
  const TableView& view_;
  int64_t count_ = 0, num_rows_ = 0;
  bool is_dense_ = true;   // row ids are 0, 1, ...
  bool are_known_ = true;  // bits_ is valid, if not dense
  bool has_all_ = true;    // no KeepOnly
  RowBits bits_;           // rows that it has, if not dense
};

}  // namespace sok
