// SPDX-License-Identifier: Apache-2.0
// Translates errors of CUDA calls to the core's error type.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/base/error.h"

namespace sok {

/// Throws kOutOfMemory if the GPU is out of memory, kCuda for any other failure of `what`.
inline void CheckCuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that it is not reported twice
  const bool is_memory = status == cudaErrorMemoryAllocation;
  Throw(is_memory ? ErrorCode::kOutOfMemory : ErrorCode::kCuda, "CUDA: ", what,
        " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")",
        is_memory ? "; free memory on the GPU, or declare smaller capacities" : "");
}

#define SOK_CUDA_TRY(call) ::sok::CheckCuda(call, #call)

}  // namespace sok
