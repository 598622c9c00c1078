// SPDX-License-Identifier: Apache-2.0
// The engine of tables on a CPU in Python's module for tests; ops/python has the product's.
#include "ops/python/engines.h"
#include "ops/tests/host_queue/host_engine.h"

namespace sok {

Engine& EngineOfCpu() { return HostQueueEngine(); }

}  // namespace sok
