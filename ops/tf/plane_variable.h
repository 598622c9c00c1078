// SPDX-License-Identifier: Apache-2.0
// A TensorFlow variable whose memory is a plane of a table: reserved address space, committed row
// by row.
#ifndef SOK_OPS_TF_PLANE_VARIABLE_H_
#define SOK_OPS_TF_PLANE_VARIABLE_H_

#include <vector>

#include "ops/base/reserved_memory.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace sok {

/// The variable behind input `index`; made, without a value, when it does not exist yet.
tensorflow::core::RefCountPtr<tensorflow::Var> LookupOrMakeVariable(
    tensorflow::OpKernelContext* ctx, int index);

/// The variable behind input `index`; kFailedPrecondition when it has not been initialized.
tensorflow::core::RefCountPtr<tensorflow::Var> LookupVariable(tensorflow::OpKernelContext* ctx,
                                                              int index);

/// Gives `variable` a value of `capacity` rows of `width` floats, all zeros, none of them
/// committed. The variable goes into copy-on-read mode: otherwise one dense read would make the
/// next sparse update copy the whole plane.
void MakePlane(tensorflow::Var* variable, int64_t capacity, int64_t width, PageSize page_size);

/// Shared locks on variables while their memory is used, taken in TensorFlow's order (by address of
/// the mutex).
class SharedLocks {
 public:
  explicit SharedLocks(std::vector<tensorflow::Var*> variables);
  ~SharedLocks();
  SharedLocks(const SharedLocks&) = delete;
  SharedLocks& operator=(const SharedLocks&) = delete;

 private:
  std::vector<tensorflow::Var*> variables_;  // in locking order, each once
};

/// The memory of a plane; kInvalidArgument when the variable's value no longer has that shape.
/// Needs its lock.
float* PlaneData(tensorflow::Var* variable, int64_t capacity, int64_t width);

}  // namespace sok

#endif  // SOK_OPS_TF_PLANE_VARIABLE_H_
