// SPDX-License-Identifier: Apache-2.0
// The driver's functions, looked up at run time: nothing links libcuda, so a library that was built
// with CUDA also loads without a driver.
#pragma once

#include <cuda.h>

#include "ops/cuda/cuda_error.h"

namespace sok {

/// The driver's function `name`, looked up once. Throws kCuda if the driver has none.
#define SOK_DRIVER(name)                                                          \
  ([] {                                                                           \
    static const auto function = ::sok::DriverFunction<decltype(&(name))>(#name); \
    return function;                                                              \
  }())

template <typename Function>
Function DriverFunction(const char* name) {
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
  return reinterpret_cast<Function>(address);
}

}  // namespace sok
