// SPDX-License-Identifier: Apache-2.0
// The rows of slots that are ordinary variables, collected by row id while a table is restored.
#ifndef SOK_OPS_TF_CHECKPOINT_LAYOUT_ROWS_OF_VARIABLES_H_
#define SOK_OPS_TF_CHECKPOINT_LAYOUT_ROWS_OF_VARIABLES_H_

#include <cstdint>
#include <numeric>
#include <vector>

#include "ops/tf/tables/contents/table_contents.h"

namespace sok {

/// Rows of ordinary variables, to be assigned by the caller: of repeated row ids, the last rows
/// win.
class RowsOfVariables {
 public:
  /// `most_rows`: limit of rows to add.
  RowsOfVariables(tensorflow::OpKernelContext* ctx, const std::vector<int64_t>& widths,
                  int64_t most_rows);

  /// Adds rows that were not added before, unless `may_repeat`; row_ids are on the device.
  /// `rows_of(i)`: [count, width], of variable i.
  template <typename RowsOf>
  void Add(OpCall& call, int64_t count, const int64_t* row_ids, bool may_repeat,
           const RowsOf& rows_of) {
    if (widths_.empty()) return;
    std::vector<int64_t> room;
    Place(count, call.OnHost(row_ids, count, &room), may_repeat);
    for (size_t i = 0; i < widths_.size(); ++i) Put(i, rows_of(i));
  }
  /// As Add, for consecutive rows from `first_row` on that were not added before.
  template <typename RowsOf>
  void AddInOrder(int64_t count, int64_t first_row, const RowsOf& rows_of) {
    if (widths_.empty()) return;
    std::vector<int64_t> row_ids(static_cast<size_t>(count));
    std::iota(row_ids.begin(), row_ids.end(), first_row);
    Place(count, row_ids.data(), /*may_repeat=*/false);
    for (size_t i = 0; i < widths_.size(); ++i) Put(i, rows_of(i));
  }
  /// Removes rows that no longer have a key.
  void Remove(OpCall& call, int64_t count, const int64_t* row_ids);
  /// Sets the outputs, from the first one on: row ids, and the rows of each variable.
  void Output(tensorflow::OpKernelContext* ctx);

 private:
  void Place(int64_t count, const int64_t* row_ids, bool may_repeat);
  void Index(size_t row);
  void Put(size_t variable, const float* rows);

  const std::vector<int64_t> widths_;
  tensorflow::Tensor row_ids_;            // [most_rows], num_rows_ of them used
  std::vector<tensorflow::Tensor> rows_;  // by variable
  int64_t num_rows_ = 0;
  std::vector<int64_t> places_;        // of the rows being added
  std::vector<int64_t> place_of_row_;  // by row id, once rows may repeat; -1: none
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_LAYOUT_ROWS_OF_VARIABLES_H_
