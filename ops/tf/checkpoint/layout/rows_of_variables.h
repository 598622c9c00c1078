// SPDX-License-Identifier: Apache-2.0
// Slots that are ordinary variables, as columns of a table that is restored.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/tf/tables/contents/columns.h"

namespace sok {

/// Collects rows of ordinary variables by row id, for the caller to assign.
class RowsOfVariables {
 public:
  /// Adds a column for each of `widths`; row ids are below `num_rows`.
  RowsOfVariables(tensorflow::OpKernelContext* ctx, OpCall& call,
                  const std::vector<int64_t>& widths, int64_t num_rows,
                  std::vector<Column>* columns);

  /// Sets the outputs row_ids, of all keys, and of_variables.
  void Output(tensorflow::OpKernelContext* ctx, OpCall& call, Table& table);

 private:
  std::vector<tensorflow::Tensor> rows_;  // by variable
};

}  // namespace sok
