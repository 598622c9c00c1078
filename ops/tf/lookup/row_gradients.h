// SPDX-License-Identifier: Apache-2.0
// The gradients that an optimizer op is given, checked, each row once.
#ifndef SOK_OPS_TF_LOOKUP_ROW_GRADIENTS_H_
#define SOK_OPS_TF_LOOKUP_ROW_GRADIENTS_H_

#include <cstdint>

#include "ops/tf/base/engine_of_op.h"

namespace sok {

/// Valid as long as the call that made them.
struct RowGradients {
  int64_t count;
  const int64_t* row_ids;  // [count], distinct
  const float* values;     // [count, dim]
};

/// Adds up the gradients of rows that come twice, unless the caller knows that none does.
/// kInvalidArgument for a shape that does not fit, or where rows may come twice, for a row that the
/// table does not have; else that is for Table::ApplyToRows to see.
RowGradients CheckedRowGradients(OpCall& call, Table& table,
                                 const tensorflow::Tensor& values,   // [n, dim]
                                 const tensorflow::Tensor& row_ids,  // [n]
                                 bool row_ids_are_distinct);

}  // namespace sok

#endif  // SOK_OPS_TF_LOOKUP_ROW_GRADIENTS_H_
