// SPDX-License-Identifier: Apache-2.0
// Tensors that keep an object alive.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/tensor.h"

namespace sok {

/// A tensor in memory that `owned` keeps alive.
tf::Tensor TensorIn(void* memory, tf::DataType dtype, const tf::TensorShape& shape,
                    std::shared_ptr<const void> owned);

/// A tensor in the same memory. `owned` lives as long as any tensor made from it in this memory.
/// `generation`: see GenerationOf.
tf::Tensor Owning(const tf::Tensor& tensor, std::shared_ptr<const void> owned, int64_t generation);

/// Of row ids: the generation in which their table found them, see RowGenerations; 0 if they are
/// not in the memory of an `Owning` tensor.
int64_t GenerationOf(const tf::Tensor& tensor);

}  // namespace sok
