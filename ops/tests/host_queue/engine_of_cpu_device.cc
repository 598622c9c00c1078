// SPDX-License-Identifier: Apache-2.0
// The engine of ops on a CPU in the op library for tests; ops/tf has the product's.
#include "ops/tests/host_queue/host_engine.h"
#include "ops/tf/base/engine_of_op.h"

namespace sok {

Engine& EngineOfCpuDevice() { return HostQueueEngine(); }

}  // namespace sok
