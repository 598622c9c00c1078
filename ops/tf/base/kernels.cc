// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/kernels.h"

#include <vector>

#include "tensorflow/core/framework/kernel_def_builder.h"

namespace sok {

RegisteredKernel::RegisteredKernel(const char* op, tf::OpKernel* (*make)(tf::OpKernelConstruction*),
                                   std::initializer_list<const char*> on_host, Devices devices) {
  std::vector<const char*> types = {tf::DEVICE_CPU};
#if SOK_HAS_CUDA
  if (devices == Devices::kAll) types.push_back(tf::DEVICE_GPU);
#endif
  static_cast<void>(devices);
  for (const char* type : types) {
    tf::KernelDefBuilder definition(op);
    definition.Device(type);
    for (const char* tensor : on_host) definition.HostMemory(tensor);
    tf::kernel_factory::OpKernelRegistrar(definition.Build(), op, make);
  }
}

}  // namespace sok
