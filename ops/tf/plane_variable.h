// SPDX-License-Identifier: Apache-2.0
// A TensorFlow variable whose memory is a plane of a table.
#ifndef SOK_OPS_TF_PLANE_VARIABLE_H_
#define SOK_OPS_TF_PLANE_VARIABLE_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ops/tf/engine_of_op.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace sok {

using VariablePtr = tensorflow::core::RefCountPtr<tensorflow::Var>;

/// The variable behind input `index`; made, without a value, when it does not exist yet.
VariablePtr LookupOrMakeVariable(tensorflow::OpKernelContext* ctx, int index);

/// The variable behind a handle; kFailedPrecondition when it has not been initialized.
VariablePtr LookupVariable(tensorflow::OpKernelContext* ctx,
                           const tensorflow::ResourceHandle& handle);

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

/// A plane and the variable that shows it: [capacity, width], of which only rows that were handed
/// out need have memory. The variable is in copy-on-read mode: otherwise one dense read would make
/// the next sparse update copy the whole plane.
class PlaneVariable {
 public:
  PlaneVariable() = default;
  PlaneVariable(VariablePtr variable, const PlaneOptions& options)
      : variable_(std::move(variable)), options_(options) {}

  tensorflow::Var* variable() const { return variable_.get(); }
  const PlaneOptions& options() const { return options_; }
  const std::shared_ptr<Plane>& plane() const { return plane_; }

  /// Whether the plane's memory is the variable's value. Needs the variable's lock.
  bool IsInVariable() const { return variable_->tensor()->data() == plane_->data(); }

  /// Makes `plane`, which may be the present one at another address, the variable's value.
  void Put(std::shared_ptr<Plane> plane);

  /// plane()->Reserve, while nobody else uses the plane; the variable follows it.
  void Reserve(int64_t num_rows);

  /// Where somebody has assigned the variable another value, copies its first num_rows() rows into
  /// the plane and makes the plane its value again. kInvalidArgument when the shape is another one.
  void TakeBack(OpCall& call, const std::function<int64_t()>& num_rows);

 private:
  void PutLocked();

  VariablePtr variable_;
  PlaneOptions options_;
  std::shared_ptr<Plane> plane_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_PLANE_VARIABLE_H_
