// SPDX-License-Identifier: Apache-2.0
// The rows that keys without a row read.
#pragma once

#include "ops/tf/tables/resource/table_resource.h"

namespace sok {

/// Whether any row id is below 0, if the host can see it; else true.
bool MayHaveAbsent(OpCall& call, const tf::Tensor& row_ids);

/// Gives keys that a lookup has not found `absent_rows` [number of such keys, dim] as their initial
/// rows; needs arrival->found. Throws kInvalidArgument for another shape.
void GiveRows(const TableOptions& options, const tf::Tensor& absent_rows, Arrival* arrival);

/// Temporary memory [n, dim] in which row i is written if row_ids[i] < 0: from `absent_rows`
/// [number of such keys, dim] or, if that is empty, the first value of keys[i]. nullptr if it is
/// cheap to see that no row id is below 0. All tensors are on the device.
const float* AbsentRows(OpCall& call, const TableView& view, const tf::Tensor& keys,
                        const tf::Tensor& row_ids, const tf::Tensor& absent_rows);

}  // namespace sok
