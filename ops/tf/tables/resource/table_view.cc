// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/resource/table_view.h"

#include "ops/tf/base/border.h"
#include "ops/tf/tables/resource/plane_variable.h"

namespace sok {

int64_t TableView::NumWrittenRows(Call& call, const Plane& plane) const {
  if (has_preset && &plane == planes.rows) return options().capacity;
  return table.Size(call).num_rows;
}

Plane& TableView::PlaneOf(tf::OpKernelContext* ctx, const tf::ResourceHandle& handle) const {
  const VariablePtr variable = LookupVariable(ctx, handle);
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i] == variable.get()) return i == 0 ? *planes.rows : *planes.slots[i - 1].plane;
  }
  Throw(ErrorCode::kFailedPrecondition, "variable ", handle.name(), " is not a slot of table '",
        options().name,
        "' in this session: run its initializer (tf.global_variables_initializer()) first");
}

RowsView TableView::RowsOf(tf::OpKernelContext* ctx, const tf::ResourceHandle& handle) const {
  const Plane& plane = PlaneOf(ctx, handle);
  if (plane.width() == options().dim) return plane.data();
  Throw(ErrorCode::kInvalidArgument, "variable ", handle.name(), " has rows of ", plane.width(),
        " floats, but the dim of table '", options().name, "' is ", options().dim);
}

}  // namespace sok
