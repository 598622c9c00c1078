// SPDX-License-Identifier: Apache-2.0
// Checks of the planes that a checkpoint saves or restores.
#pragma once

#include <string>

#include "ops/engine/table_options.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace sok {

/// Throws kFailedPrecondition if a table has slots that its saver does not know.
void CheckAllSlotsAreNamed(const TableOptions& options, size_t num_slots, size_t num_named);

/// Throws kInvalidArgument if `shape`, of the tensor called `what`, is not [num_keys, width].
void CheckPlaneToRestore(const TableOptions& options, const std::string& what, int64_t num_keys,
                         int64_t width, const tf::TensorShape& shape);

}  // namespace sok
