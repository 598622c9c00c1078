// SPDX-License-Identifier: Apache-2.0
// Errors of CUDA calls as the core's one error type.
#ifndef SOK_OPS_CUDA_CUDA_ERROR_H_
#define SOK_OPS_CUDA_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include "ops/base/error.h"

namespace sok {

/// Throws kOutOfMemory where the GPU has no memory left, kCuda for any other failure of `what`.
inline void CheckCuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that was reported is not reported again
  const bool is_memory = status == cudaErrorMemoryAllocation;
  Throw(is_memory ? ErrorCode::kOutOfMemory : ErrorCode::kCuda, "CUDA: ", what,
        " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")",
        is_memory ? "; free memory on the GPU, or declare smaller capacities" : "");
}

#define SOK_CUDA_TRY(call) ::sok::CheckCuda(call, #call)

}  // namespace sok

#endif  // SOK_OPS_CUDA_CUDA_ERROR_H_
