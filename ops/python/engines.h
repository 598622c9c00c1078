// SPDX-License-Identifier: Apache-2.0
// The engines of the devices that Python can name.
#pragma once

#include "ops/engine/engine.h"

namespace sok {

/// The CPU's engine; in the module for tests, the test double of a GPU.
Engine& EngineOfCpu();

/// Throws kCuda if there is no such GPU, or this build has no CUDA back end.
Engine& EngineOfGpu(int number);

}  // namespace sok
