// SPDX-License-Identifier: Apache-2.0
// The engine of the CPU device, in the installed op library.
#include "ops/cpu/cpu_engine.h"
#include "ops/tf/base/engine_of_op.h"

namespace sok {

Engine& EngineOfCpuDevice() { return CpuEngine(); }

}  // namespace sok
