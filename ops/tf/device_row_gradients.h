// SPDX-License-Identifier: Apache-2.0
// As RowGradients, for tensors on a GPU.
#ifndef SOK_OPS_TF_DEVICE_ROW_GRADIENTS_H_
#define SOK_OPS_TF_DEVICE_ROW_GRADIENTS_H_

#include "ops/tf/device_call.h"

namespace sok {

/// The gradients that an optimizer op is given, checked, each row once. Valid as long as `call`.
struct DeviceRowGradients {
  int64_t count;
  const int64_t* row_ids;  // [count], distinct
  const float* values;     // [count, dim]
};

/// kInvalidArgument for a shape that does not fit, and, where the caller does not know that the row
/// ids are distinct rows of this table, for a row that the table does not have; this waits.
DeviceRowGradients CheckedRowGradients(DeviceCall& call, EngineTable& table,
                                       const tensorflow::Tensor& values,   // [n, dim]
                                       const tensorflow::Tensor& row_ids,  // [n]
                                       bool row_ids_are_distinct);

}  // namespace sok

#endif  // SOK_OPS_TF_DEVICE_ROW_GRADIENTS_H_
