// SPDX-License-Identifier: Apache-2.0
// The registration of the kernels of ops.
#ifndef SOK_OPS_TF_BASE_KERNELS_H_
#define SOK_OPS_TF_BASE_KERNELS_H_

#include <initializer_list>

#include "tensorflow/core/framework/op_kernel.h"

/// In the definition of an op that takes part in collectives of all ranks, or none.
#define SOK_COLLECTIVES \
  .Input("collectives: num_collectives * variant").Attr("num_collectives: int >= 0")

namespace sok {

template <typename Kernel>
tensorflow::OpKernel* Make(tensorflow::OpKernelConstruction* ctx) {
  return new Kernel(ctx);
}

/// Registers the kernels of an op. Those of a file are a list.
class RegisteredKernel {
 public:
  enum class Devices { kCpu, kAll };  // kAll: GPUs, too, in a build with CUDA

  /// `on_host`: inputs and outputs that stay in the host's memory when the op is on a GPU.
  RegisteredKernel(const char* op,
                   tensorflow::OpKernel* (*make)(tensorflow::OpKernelConstruction* ctx),
                   std::initializer_list<const char*> on_host, Devices devices = Devices::kAll);
};

}  // namespace sok

#endif  // SOK_OPS_TF_BASE_KERNELS_H_
