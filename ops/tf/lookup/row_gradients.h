// SPDX-License-Identifier: Apache-2.0
// The gradients given to an optimizer op, checked, with distinct rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/tf/tables/resource/table_resource.h"

namespace sok {

/// Valid as long as the call that created them.
struct RowGradients {
  int64_t count;
  const int64_t* row_ids;  // [count], distinct
  const float* values;     // [count, dim]
};

/// Throws kInvalidArgument for a wrong shape.
RowGradients GradientsOf(const TableOptions& options,
                         const tf::Tensor& values,    // [n, dim]
                         const tf::Tensor& row_ids);  // [n]

/// Those of ids that are of keys that wait for rows in the step of `ctx`.
struct WaitingIds {
  std::vector<size_t> places;  // among the ids
  std::vector<int64_t> keys;
};
/// Needs the planes to be locked.
WaitingIds FindWaiting(tf::OpKernelContext* ctx, TableResource* resource,
                       const std::vector<int64_t>& ids);

/// The gradients of rows that the table has by now, where a filter may have kept keys out when a
/// lookup of the step counted them; others' are left out.
RowGradients GradientsOfAdmitted(tf::OpKernelContext* ctx, OpCall& call, TableResource* resource,
                                 const TableView& view, const RowGradients& given);

/// Adds up the gradients of repeated rows, unless the caller guarantees that there are none. If
/// rows may repeat, throws kInvalidArgument for a row that the table does not have; otherwise
/// Table::ApplyToRows checks it.
RowGradients DistinctGradients(OpCall& call, Table& table, const RowGradients& given,
                               bool row_ids_are_distinct);

}  // namespace sok
