// SPDX-License-Identifier: Apache-2.0
#include "ops/base/error.h"
#include "ops/python/engines.h"

#if SOK_HAS_CUDA
#include "ops/cuda/cuda_engine.h"
#endif

namespace sok {

Engine& EngineOfGpu(int number) {
#if SOK_HAS_CUDA
  return CudaEngine(number);
#else
  Throw(ErrorCode::kCuda, "cuda:", number, ": this build has no CUDA back end, because ",
        SOK_WHY_NO_CUDA);
#endif
}

}  // namespace sok
