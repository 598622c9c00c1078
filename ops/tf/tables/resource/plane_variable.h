// SPDX-License-Identifier: Apache-2.0
// A TensorFlow variable whose memory is a plane of a table.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ops/tf/base/engine_of_op.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace sok {

using VariablePtr = tf::core::RefCountPtr<tf::Var>;

/// TensorFlow's type of an element.
tf::DataType DataTypeOf(Element element);

/// The variable of an input; created, without a value, if it does not exist yet.
VariablePtr LookupOrMakeVariable(tf::OpKernelContext* ctx, const char* input);

/// The variable of a handle; kFailedPrecondition if it has not been initialized.
VariablePtr LookupVariable(tf::OpKernelContext* ctx, const tf::ResourceHandle& handle);

/// Locks on variables, taken in TensorFlow's order (by address of the mutex).
class VariableLocks {
 public:
  enum class Mode {
    kShared,  // to use their memory
    kAlone,   // to replace their value
  };
  VariableLocks(std::vector<tf::Var*> variables, Mode mode);
  ~VariableLocks();
  VariableLocks(const VariableLocks&) = delete;
  VariableLocks& operator=(const VariableLocks&) = delete;

 private:
  std::vector<tf::Var*> variables_;  // in locking order, each once
  const Mode mode_;
};

/// A plane and the variable that shows it. With a declared capacity the variable is [capacity,
/// width], and only rows that were assigned need memory. Otherwise it is [num_rows(), width], and
/// all rows have memory: ops that know nothing of planes check row ids against the shape. The
/// variable is in copy-on-read mode: otherwise one dense read would make the next sparse update
/// copy the whole plane.
class PlaneVariable {
 public:
  PlaneVariable() = default;
  PlaneVariable(VariablePtr variable, const PlaneOptions& options)
      : variable_(std::move(variable)), options_(options) {}

  bool has_capacity() const { return options_.capacity != kMaxRows; }
  /// Rows that the variable shows.
  int64_t num_rows() const { return num_rows_; }

  tf::Var* variable() const { return variable_.get(); }
  const PlaneOptions& options() const { return options_; }
  const std::shared_ptr<Plane>& plane() const { return plane_; }

  /// Whether the variable's value is still the plane. Needs the variable's lock, as all calls
  /// below.
  bool IsInVariable() const { return variable_->tensor()->data() == shown_; }

  /// Makes `plane` the variable's value.
  void Put(std::shared_ptr<Plane> plane);

  /// Makes the variable show the plane at its current address, with `num_rows` rows if it has no
  /// capacity; unless it was assigned another value.
  void Show(int64_t num_rows);

  /// If the variable was assigned another value, copies its first num_written() rows into the plane
  /// and makes the plane its value again. kInvalidArgument if the shape differs; without a capacity
  /// it may have fewer rows, as it had when it was read.
  void TakeBack(OpCall& call, const std::function<int64_t()>& num_written);

 private:
  tf::TensorShape Shape() const;
  void PutPlane();

  VariablePtr variable_;
  PlaneOptions options_;
  std::shared_ptr<Plane> plane_;
  int64_t num_rows_ = 0;
  const void* shown_ = nullptr;  // data() when the plane was last shown
};

}  // namespace sok
