// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/owning_tensor.h"

#include <cstddef>
#include <utility>

#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/allocation_description.pb.h"

namespace sok {
namespace {

class OwningBuffer : public tf::TensorBuffer {
 public:
  OwningBuffer(void* memory, size_t num_bytes, std::shared_ptr<const void> owned,
               int64_t generation)
      : tf::TensorBuffer(memory),
        num_bytes_(num_bytes),
        owned_(std::move(owned)),
        generation_(generation) {}

  int64_t generation() const { return generation_; }
  size_t size() const override { return num_bytes_; }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(num_bytes_));
    description->set_allocator_name("sok");
  }

 private:
  const size_t num_bytes_;
  const std::shared_ptr<const void> owned_;
  const int64_t generation_;
};

tf::Tensor TensorOf(tf::DataType dtype, const tf::TensorShape& shape, OwningBuffer* made) {
  tf::core::RefCountPtr<tf::TensorBuffer> buffer(made);
  return tf::Tensor(dtype, shape, std::move(buffer));
}

}  // namespace

tf::Tensor TensorIn(void* memory, tf::DataType dtype, const tf::TensorShape& shape,
                    std::shared_ptr<const void> owned) {
  const auto num_bytes = static_cast<size_t>(shape.num_elements() * tf::DataTypeSize(dtype));
  return TensorOf(dtype, shape, new OwningBuffer(memory, num_bytes, std::move(owned), 0));
}

tf::Tensor Owning(const tf::Tensor& tensor, std::shared_ptr<const void> owned, int64_t generation) {
  if (tensor.NumElements() == 0) return tensor;
  const auto both = std::make_shared<const std::pair<tf::Tensor, std::shared_ptr<const void>>>(
      tensor, std::move(owned));
  return TensorOf(tensor.dtype(), tensor.shape(),
                  new OwningBuffer(tensor.data(), tensor.TotalBytes(), both, generation));
}

int64_t GenerationOf(const tf::Tensor& tensor) {
  const tf::TensorBuffer* buffer = tf::DMAHelper::buffer(&tensor);
  if (buffer == nullptr) return 0;
  const auto* owning =
      dynamic_cast<const OwningBuffer*>(const_cast<tf::TensorBuffer*>(buffer)->root_buffer());
  return owning == nullptr ? 0 : owning->generation();
}

}  // namespace sok
