// SPDX-License-Identifier: Apache-2.0
// The engine of the host: loops on the threads of a call's executor.
#ifndef SOK_OPS_CPU_CPU_ENGINE_H_
#define SOK_OPS_CPU_CPU_ENGINE_H_

#include "ops/engine/engine.h"

namespace sok {

/// Lives as long as the process.
Engine& CpuEngine();

}  // namespace sok

#endif  // SOK_OPS_CPU_CPU_ENGINE_H_
