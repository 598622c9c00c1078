// SPDX-License-Identifier: Apache-2.0
// The engine of a GPU, for callers that nvcc does not compile.
#ifndef SOK_OPS_CUDA_CUDA_ENGINE_H_
#define SOK_OPS_CUDA_CUDA_ENGINE_H_

#include "ops/engine/engine.h"

namespace sok {

/// The engine of a GPU, numbered as in CUDA. Lives as long as the process. Throws kCuda.
Engine& CudaEngine(int device);

/// The engine of the GPU that `stream`, a cudaStream_t, belongs to.
Engine& CudaEngineOf(DeviceStream stream);

}  // namespace sok

#endif  // SOK_OPS_CUDA_CUDA_ENGINE_H_
