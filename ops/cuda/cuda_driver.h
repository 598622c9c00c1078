// SPDX-License-Identifier: Apache-2.0
// The driver's functions, looked up at run time: nothing links libcuda, so a library that was built
// with CUDA also loads without a driver.
#ifndef SOK_OPS_CUDA_CUDA_DRIVER_H_
#define SOK_OPS_CUDA_CUDA_DRIVER_H_

#include <cuda.h>

#include "ops/cuda/cuda_error.h"

namespace sok {

/// Throws kCuda if the driver has no function of that name.
template <typename Function>
void FindDriverFunction(const char* name, Function* function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
  constexpr unsigned kVersion = 10020;  // CUDA 10.2, which introduced the newest of these
  SOK_CUDA_TRY(
      cudaGetDriverEntryPointByVersion(name, &address, kVersion, cudaEnableDefault, &result));
#else
  SOK_CUDA_TRY(cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &result));
#endif
  if (result != cudaDriverEntryPointSuccess || address == nullptr) {
    Throw(ErrorCode::kCuda, "CUDA: this driver has no ", name, "; install a newer driver");
  }
  *function = reinterpret_cast<Function>(address);
}

}  // namespace sok

#endif  // SOK_OPS_CUDA_CUDA_DRIVER_H_
