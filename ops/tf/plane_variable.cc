// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/plane_variable.h"

#include <algorithm>
#include <utility>

#include "ops/tf/border.h"
#include "tensorflow/core/framework/allocation_description.pb.h"

namespace sok {

namespace tf = tensorflow;

namespace {

constexpr size_t kMaxPlaneBytes = size_t{1} << 47;

class ReservedBuffer : public tf::TensorBuffer {
 public:
  explicit ReservedBuffer(ReservedMemory memory)
      : tf::TensorBuffer(memory.data()), memory_(std::move(memory)) {}
  size_t size() const override { return memory_.size_bytes(); }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(memory_.size_bytes()));
    description->set_allocator_name("sok_reserved");
  }

 private:
  ReservedMemory memory_;
};

}  // namespace

tf::core::RefCountPtr<tf::Var> LookupOrMakeVariable(tf::OpKernelContext* ctx, int index) {
  tf::core::RefCountPtr<tf::Var> variable;
  ThrowIfError(tf::LookupOrCreateResource<tf::Var>(ctx, tf::HandleFromInput(ctx, index), &variable,
                                                   [](tf::Var** made) {
                                                     *made = new tf::Var(tf::DT_FLOAT);
                                                     return absl::OkStatus();
                                                   }));
  return variable;
}

tf::core::RefCountPtr<tf::Var> LookupVariable(tf::OpKernelContext* ctx, int index) {
  tf::core::RefCountPtr<tf::Var> variable;
  const tf::ResourceHandle& handle = tf::HandleFromInput(ctx, index);
  if (!tf::LookupResource(ctx, handle, &variable).ok()) {
    Throw(ErrorCode::kFailedPrecondition, "variable ", handle.name(),
          " has not been initialized: run its initializer (tf.global_variables_initializer()) in "
          "this session first");
  }
  return variable;
}

void MakePlane(tf::Var* variable, int64_t capacity, int64_t width, PageSize page_size) {
  const tf::TensorShape shape({capacity, width});
  size_t size_bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(), sizeof(float), &size_bytes) ||
      size_bytes > kMaxPlaneBytes) {
    Throw(ErrorCode::kOutOfMemory, "a table of ", capacity, " rows of ", width,
          " floats does not fit in the address space of 2^47 bytes; lower the capacity "
          "(max_vocabulary_size_per_gpu)");
  }
  tf::core::RefCountPtr<tf::TensorBuffer> buffer(
      new ReservedBuffer(ReservedMemory(size_bytes, page_size)));
  tf::mutex_lock lock(*variable->mu());
  *variable->tensor() = tf::Tensor(tf::DT_FLOAT, shape, std::move(buffer));
  variable->is_initialized = true;
  variable->copy_on_read_mode.store(true);
}

SharedLocks::SharedLocks(std::vector<tf::Var*> variables) : variables_(std::move(variables)) {
  std::sort(variables_.begin(), variables_.end(),
            [](tf::Var* a, tf::Var* b) { return a->mu() < b->mu(); });
  variables_.erase(std::unique(variables_.begin(), variables_.end()), variables_.end());
  for (tf::Var* variable : variables_) variable->mu()->lock_shared();
}

SharedLocks::~SharedLocks() {
  for (tf::Var* variable : variables_) variable->mu()->unlock_shared();
}

float* PlaneData(tf::Var* variable, int64_t capacity, int64_t width) {
  tf::Tensor& tensor = *variable->tensor();
  if (!variable->is_initialized || tensor.shape() != tf::TensorShape({capacity, width})) {
    Throw(ErrorCode::kInvalidArgument, "a variable that belongs to a table must keep its shape [",
          capacity, ", ", width, "], but it now has ", tensor.shape().DebugString());
  }
  return tensor.flat<float>().data();
}

}  // namespace sok
