// SPDX-License-Identifier: Apache-2.0
// A TensorFlow variable whose memory is a plane on a GPU.
#ifndef SOK_OPS_TF_DEVICE_PLANE_H_
#define SOK_OPS_TF_DEVICE_PLANE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "ops/tf/device_call.h"
#include "tensorflow/core/framework/resource_var.h"

namespace sok {

/// Gives `variable` a new plane as its value, [capacity, width], no row of which has memory. As
/// MakePlane, it goes into copy-on-read mode.
std::shared_ptr<EnginePlane> MakeDevicePlane(DeviceCall& call, tensorflow::Var* variable,
                                             int64_t capacity, int64_t width);

/// Where somebody has assigned `variable` another value, copies its first `num_rows` rows into the
/// plane and makes the plane its value again. kInvalidArgument when the shape is another one.
void KeepInPlane(DeviceCall& call, tensorflow::Var* variable,
                 const std::shared_ptr<EnginePlane>& plane, int64_t capacity,
                 const std::function<int64_t()>& num_rows);

/// values[i] = row row_ids[i] of the plane, for values on the host; row_ids are on the device.
void CopyRowsToHost(DeviceCall& call, const EnginePlane& plane, int64_t num_rows,
                    const int64_t* row_ids, float* values);

/// Row row_ids[i] of the plane becomes values[i], for values on the host; row_ids are on the
/// device.
void CopyRowsFromHost(DeviceCall& call, const EnginePlane& plane, int64_t num_rows,
                      const int64_t* row_ids, const float* values);

}  // namespace sok

#endif  // SOK_OPS_TF_DEVICE_PLANE_H_
