// SPDX-License-Identifier: Apache-2.0
// The engines of the devices that Python names.
#ifndef SOK_OPS_PYTHON_ENGINES_H_
#define SOK_OPS_PYTHON_ENGINES_H_

#include "ops/engine/engine.h"

namespace sok {

/// Not the CPU's in the module for tests.
Engine& EngineOfCpu();

/// Throws kCuda if there is no such GPU, or this build has no CUDA back end.
Engine& EngineOfGpu(int number);

}  // namespace sok

#endif  // SOK_OPS_PYTHON_ENGINES_H_
