// SPDX-License-Identifier: Apache-2.0
// Tensors that keep an object alive.
#pragma once

#include <cstdint>
#include <memory>

#include "tensorflow/core/framework/tensor.h"

namespace sok {

/// A tensor in memory that `owned` keeps alive.
tensorflow::Tensor TensorIn(void* memory, tensorflow::DataType dtype,
                            const tensorflow::TensorShape& shape,
                            std::shared_ptr<const void> owned);

/// A tensor in the same memory. `owned` lives as long as any tensor made from it in this memory.
/// `generation`: see GenerationOf.
tensorflow::Tensor Owning(const tensorflow::Tensor& tensor, std::shared_ptr<const void> owned,
                          int64_t generation);

/// Of row ids: the generation in which their table found them, see RowGenerations; 0 if they are
/// not in the memory of an `Owning` tensor.
int64_t GenerationOf(const tensorflow::Tensor& tensor);

}  // namespace sok
