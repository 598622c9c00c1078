// SPDX-License-Identifier: Apache-2.0
// The engines of the devices that Python can name.
#ifndef SOK_OPS_PYTHON_ENGINES_H_
#define SOK_OPS_PYTHON_ENGINES_H_

#include "ops/engine/engine.h"

namespace sok {

/// The CPU's engine; in the module for tests, the test double of a GPU.
Engine& EngineOfCpu();

/// Throws kCuda if there is no such GPU, or this build has no CUDA back end.
Engine& EngineOfGpu(int number);

}  // namespace sok

#endif  // SOK_OPS_PYTHON_ENGINES_H_
