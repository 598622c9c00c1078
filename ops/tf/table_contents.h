// SPDX-License-Identifier: Apache-2.0
// All that a table can be asked for, key by key, without changing it.
#ifndef SOK_OPS_TF_TABLE_CONTENTS_H_
#define SOK_OPS_TF_TABLE_CONTENTS_H_

#include <cstdint>

#include "ops/table/table.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// With a hash index: the keys that are held, in the order of row ids. Without one: every key in
/// the table's range, ascending; rows that nobody has asked for yet are their first values. The
/// planes must stay locked.
class TableContents {
 public:
  TableContents(const Table& table, const RowPlanes& planes);
  /// Of a table elsewhere: copies of its entries, and of rows [n, dim], where entries and, with
  /// FirstValue::Kind::kPreset, all keys have theirs.
  TableContents(const TableOptions& options, TableEntries held, const float* rows);

  int64_t size() const;
  int64_t dim() const { return options_.dim; }
  int64_t key(int64_t i) const;
  int64_t row_id(int64_t i) const;
  void CopyRow(int64_t i, float* row) const;  // row: [dim]

 private:
  const TableOptions& options_;
  const float* const rows_;
  const TableEntries held_;
};

/// Outputs 0 and 1: the keys [n] and their rows [n, dim].
void OutputContents(tensorflow::OpKernelContext* ctx, const TableContents& contents);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLE_CONTENTS_H_
