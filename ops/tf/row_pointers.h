// SPDX-License-Identifier: Apache-2.0
// Where the row of each key of a batch is read.
#ifndef SOK_OPS_TF_ROW_POINTERS_H_
#define SOK_OPS_TF_ROW_POINTERS_H_

#include <vector>

#include "ops/base/executor.h"
#include "ops/table/table.h"
#include "tensorflow/core/framework/tensor.h"

namespace sok {

/// In the plane `rows`; for keys without a row, in `absent_rows` [number of such keys, dim], or, if
/// these are empty, in first values made here.
class RowPointers {
 public:
  RowPointers(Executor& executor, const Table& table, const float* rows,
              const tensorflow::Tensor& keys, const tensorflow::Tensor& row_ids,
              const tensorflow::Tensor& absent_rows);

  const float* const* data() const { return pointers_.data(); }

 private:
  void MakeFirstValues(Executor& executor, const Table& table, const float* rows,
                       const int64_t* keys, const std::vector<size_t>& absent);

  std::vector<const float*> pointers_;
  std::vector<float> first_values_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_ROW_POINTERS_H_
