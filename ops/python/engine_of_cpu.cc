// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/cpu_engine.h"
#include "ops/python/engines.h"

namespace sok {

Engine& EngineOfCpu() { return CpuEngine(); }

}  // namespace sok
