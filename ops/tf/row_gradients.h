// SPDX-License-Identifier: Apache-2.0
// The gradients that an optimizer op is given, checked, each row once.
#ifndef SOK_OPS_TF_ROW_GRADIENTS_H_
#define SOK_OPS_TF_ROW_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "ops/base/executor.h"
#include "ops/table/table.h"
#include "tensorflow/core/framework/tensor.h"

namespace sok {

class RowGradients {
 public:
  /// Adds up the gradients of rows that come twice, unless the caller knows that none does.
  /// kInvalidArgument for a shape that does not fit or a row that the table does not have.
  RowGradients(Executor& executor, const Table& table,
               const tensorflow::Tensor& values,   // [n, dim]
               const tensorflow::Tensor& row_ids,  // [n]
               bool row_ids_are_distinct);

  int64_t count() const { return count_; }
  const int64_t* row_ids() const { return row_ids_; }  // [count], distinct
  const float* values() const { return values_; }      // [count, dim]

 private:
  void Check(const Table& table, const tensorflow::Tensor& values) const;
  void MergeRepeats(Executor& executor, int64_t dim);

  int64_t count_;
  const int64_t* row_ids_;
  const float* values_;
  std::vector<int64_t> merged_row_ids_;
  std::vector<float> merged_values_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_ROW_GRADIENTS_H_
