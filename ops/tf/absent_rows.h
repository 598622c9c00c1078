// SPDX-License-Identifier: Apache-2.0
// What keys without a row read, on a GPU.
#ifndef SOK_OPS_TF_ABSENT_ROWS_H_
#define SOK_OPS_TF_ABSENT_ROWS_H_

#include "ops/tf/device_table_resource.h"

namespace sok {

/// Temporary memory [n, dim] in which row i is written where row_ids[i] < 0: from `absent_rows`
/// [number of such keys, dim], or, if these are empty, the first value of keys[i]. All tensors are
/// on the device.
const float* AbsentRows(DeviceCall& call, const DeviceView& view, const tensorflow::Tensor& keys,
                        const tensorflow::Tensor& row_ids, const tensorflow::Tensor& absent_rows);

}  // namespace sok

#endif  // SOK_OPS_TF_ABSENT_ROWS_H_
