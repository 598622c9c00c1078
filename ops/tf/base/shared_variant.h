// SPDX-License-Identifier: Apache-2.0
// Objects that ops of a process share through variant tensors.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ops/tf/base/border.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_encode_decode.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace sok {

/// The value of the tensor. It never leaves the process.
template <typename T>
struct SharedVariant {
  std::shared_ptr<T> shared;

  static constexpr char kTypeName[] = "sok::SharedVariant";
  std::string TypeName() const { return kTypeName; }
  void Encode(tf::VariantTensorData* data) const { data->set_type_name(kTypeName); }
  bool Decode(const tf::VariantTensorData&) { return false; }
};

/// Makes an output a scalar that holds the object.
template <typename T>
void OutputShared(tf::OpKernelContext* ctx, const char* name, std::shared_ptr<T> shared) {
  Output(ctx, name, {}).scalar<tf::Variant>()() = SharedVariant<T>{std::move(shared)};
}

/// The object in a variant tensor; null if it holds none, or one of another type.
template <typename T>
std::shared_ptr<T> SharedIn(const tf::Tensor& tensor) {
  if (tensor.dims() != 0) return nullptr;
  const auto* variant = tensor.scalar<tf::Variant>()().get<SharedVariant<T>>();
  return variant == nullptr ? nullptr : variant->shared;
}

/// The object in an input that only the op `made_by` makes.
template <typename T>
std::shared_ptr<T> SharedInput(tf::OpKernelContext* ctx, const char* name, const char* made_by) {
  const tf::Tensor& tensor = Input(ctx, name);
  if (auto shared = SharedIn<T>(tensor)) return shared;
  Throw(ErrorCode::kInvalidArgument, "input `", name, "` must be the output of ", made_by, ", got ",
        tensor.DebugString());
}

}  // namespace sok
