// SPDX-License-Identifier: Apache-2.0
// The gradients given to an optimizer op, checked, with distinct rows.
#ifndef SOK_OPS_TF_LOOKUP_ROW_GRADIENTS_H_
#define SOK_OPS_TF_LOOKUP_ROW_GRADIENTS_H_

#include <cstdint>

#include "ops/tf/base/engine_of_op.h"

namespace sok {

/// Valid as long as the call that created them.
struct RowGradients {
  int64_t count;
  const int64_t* row_ids;  // [count], distinct
  const float* values;     // [count, dim]
};

/// Adds up the gradients of repeated rows, unless the caller guarantees that there are none. Throws
/// kInvalidArgument for a wrong shape and, if rows may repeat, for a row that the table does not
/// have; otherwise Table::ApplyToRows checks it.
RowGradients CheckedRowGradients(OpCall& call, Table& table,
                                 const tensorflow::Tensor& values,   // [n, dim]
                                 const tensorflow::Tensor& row_ids,  // [n]
                                 bool row_ids_are_distinct);

}  // namespace sok

#endif  // SOK_OPS_TF_LOOKUP_ROW_GRADIENTS_H_
