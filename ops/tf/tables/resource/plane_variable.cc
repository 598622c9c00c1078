// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/resource/plane_variable.h"

#include <algorithm>
#include <utility>

#include "ops/tf/base/owning_tensor.h"

namespace sok {

tf::DataType DataTypeOf(Element element) {
  if (element == Element::kBfloat16) return tf::DT_BFLOAT16;
  return element == Element::kFloat16 ? tf::DT_HALF : tf::DT_FLOAT;
}

VariablePtr LookupOrMakeVariable(tf::OpKernelContext* ctx, const char* input) {
  VariablePtr variable;
  ThrowIfError(
      tf::LookupOrCreateResource<tf::Var>(ctx, HandleIn(ctx, input), &variable, [](tf::Var** made) {
        *made = new tf::Var(tf::DT_FLOAT);
        return absl::OkStatus();
      }));
  return variable;
}

VariablePtr LookupVariable(tf::OpKernelContext* ctx, const tf::ResourceHandle& handle) {
  VariablePtr variable;
  if (!tf::LookupResource(ctx, handle, &variable).ok()) {
    Throw(ErrorCode::kFailedPrecondition, "variable ", handle.name(),
          " has not been initialized: run its initializer (tf.global_variables_initializer()) in "
          "this session first");
  }
  return variable;
}

VariableLocks::VariableLocks(std::vector<tf::Var*> variables, Mode mode)
    : variables_(std::move(variables)), mode_(mode) {
  std::sort(variables_.begin(), variables_.end(),
            [](tf::Var* a, tf::Var* b) { return a->mu() < b->mu(); });
  variables_.erase(std::unique(variables_.begin(), variables_.end()), variables_.end());
  for (tf::Var* variable : variables_) {
    mode_ == Mode::kShared ? variable->mu()->lock_shared() : variable->mu()->lock();
  }
}

VariableLocks::~VariableLocks() {
  for (tf::Var* variable : variables_) {
    mode_ == Mode::kShared ? variable->mu()->unlock_shared() : variable->mu()->unlock();
  }
}

tf::TensorShape PlaneVariable::Shape() const {
  return tf::TensorShape({num_rows_, options_.width});
}

void PlaneVariable::Put(std::shared_ptr<Plane> plane) {
  plane_ = std::move(plane);
  num_rows_ = has_capacity() ? options_.capacity : plane_->num_rows();
  PutPlane();
}

void PlaneVariable::Show(int64_t num_rows) {
  if (has_capacity()) return;  // planes with a capacity never move
  num_rows_ = num_rows;
  if (IsInVariable()) {
    PutPlane();
  } else {
    shown_ = nullptr;  // another value may be allocated at the plane's old address
  }
}

void PlaneVariable::PutPlane() {
  // At the plane's current address: a plane that moves needs another tensor.
  *variable_->tensor() =
      TensorIn(plane_->data().data, DataTypeOf(options_.element), Shape(), plane_);
  variable_->is_initialized = true;
  variable_->copy_on_read_mode.store(true);
  shown_ = plane_->data().data;
}

void PlaneVariable::TakeBack(OpCall& call, const std::function<int64_t()>& num_written) {
  if (IsInVariable()) return;
  const tf::Tensor& values = *variable_->tensor();
  const bool fits =
      variable_->is_initialized && values.dtype() == DataTypeOf(options_.element) &&
      values.dims() == 2 && values.dim_size(1) == options_.width &&
      (has_capacity() ? values.dim_size(0) == num_rows_ : values.dim_size(0) <= num_rows_);
  if (!fits) {
    Throw(ErrorCode::kInvalidArgument, "a variable that belongs to a table must keep its shape ",
          Shape().DebugString(), ", but it now has ", values.shape().DebugString());
  }
  const int64_t count = std::min<int64_t>(num_written(), values.dim_size(0));
  plane_->Reserve(count);
  plane_->ExpectRows(count);
  call.engine().CopyOnDevice(call, plane_->data().data, values.data(),
                             count * static_cast<int64_t>(options_.row_bytes()));
  PutPlane();
}

}  // namespace sok
