// SPDX-License-Identifier: Apache-2.0
// The engine of a GPU, for callers that nvcc does not compile: all that libsok_cuda.so exports.
#pragma once

#include "ops/engine/engine.h"

namespace sok {

#define SOK_EXPORTED __attribute__((visibility("default")))

/// The engine of a GPU, numbered as in CUDA. Lives as long as the process. Throws kCuda.
SOK_EXPORTED Engine& CudaEngine(int device);

/// The engine of the GPU that `stream`, a cudaStream_t, belongs to.
SOK_EXPORTED Engine& CudaEngineOf(DeviceStream stream);

#undef SOK_EXPORTED

}  // namespace sok
