// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/owning_tensor.h"

#include <cstddef>
#include <utility>

#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/allocation_description.pb.h"

namespace sok {
namespace {

namespace tf = tensorflow;

class OwningBuffer : public tf::TensorBuffer {
 public:
  OwningBuffer(const tf::Tensor& tensor, std::shared_ptr<const void> owned, int64_t generation)
      : tf::TensorBuffer(tensor.data()),
        tensor_(tensor),
        owned_(std::move(owned)),
        generation_(generation) {}

  int64_t generation() const { return generation_; }
  size_t size() const override { return tensor_.TotalBytes(); }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(size()));
  }

 private:
  const tf::Tensor tensor_;
  const std::shared_ptr<const void> owned_;
  const int64_t generation_;
};

}  // namespace

tf::Tensor Owning(const tf::Tensor& tensor, std::shared_ptr<const void> owned, int64_t generation) {
  if (tensor.NumElements() == 0) return tensor;
  tf::core::RefCountPtr<tf::TensorBuffer> buffer(
      new OwningBuffer(tensor, std::move(owned), generation));
  return tf::Tensor(tensor.dtype(), tensor.shape(), std::move(buffer));
}

int64_t GenerationOf(const tf::Tensor& tensor) {
  const tf::TensorBuffer* buffer = tf::DMAHelper::buffer(&tensor);
  if (buffer == nullptr) return 0;
  const auto* owning =
      dynamic_cast<const OwningBuffer*>(const_cast<tf::TensorBuffer*>(buffer)->root_buffer());
  return owning == nullptr ? 0 : owning->generation();
}

}  // namespace sok
