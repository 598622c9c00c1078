// SPDX-License-Identifier: Apache-2.0
// Checks of what a checkpoint takes from a table and gives back to it.
#ifndef SOK_OPS_TF_TABLES_PLANE_CHECKS_H_
#define SOK_OPS_TF_TABLES_PLANE_CHECKS_H_

#include <string>

#include "ops/engine/table_options.h"
#include "tensorflow/core/framework/tensor.h"

namespace sok {

/// kFailedPrecondition when a table has slots that its saver does not know.
void CheckAllSlotsAreNamed(const TableOptions& options, size_t num_slots, size_t num_named);

/// kInvalidArgument when `shape`, of what is called `what`, is not [num_keys, width].
void CheckPlaneToRestore(const TableOptions& options, const std::string& what, int64_t num_keys,
                         int64_t width, const tensorflow::TensorShape& shape);

/// kInvalidArgument when an ordinary variable called `what` has not a row for each of the table's.
void CheckRowsByRowId(const TableOptions& options, const std::string& what,
                      const tensorflow::Tensor& values);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_PLANE_CHECKS_H_
