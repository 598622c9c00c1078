// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/plane_checks.h"

#include "ops/base/error.h"

namespace sok {

void CheckAllSlotsAreNamed(const TableOptions& options, size_t num_slots, size_t num_named) {
  if (num_named == num_slots) return;
  Throw(ErrorCode::kFailedPrecondition, "table '", options.name, "' has ", num_slots,
        " optimizer slots, but its saver was created when there were ", num_named,
        "; create the tf.train.Saver after apply_gradients, so that it saves all of them");
}

void CheckPlaneToRestore(const TableOptions& options, const std::string& what, int64_t num_keys,
                         int64_t width, const tf::TensorShape& shape) {
  const tf::TensorShape expected({num_keys, width});
  if (shape == expected) return;
  Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': ", what,
        " to restore have shape ", shape.DebugString(), ", but ", num_keys, " keys and a width of ",
        width, " require ", expected.DebugString(),
        "; restore into a layer of the same embedding_vec_size and with the same optimizer");
}

}  // namespace sok
