// SPDX-License-Identifier: Apache-2.0
// The test double of a GPU: its kernels run on CPU threads.
#pragma once

#include <memory>

#include "ops/base/threads/executor.h"
#include "ops/engine/engine.h"

namespace sok {

/// Its kernels run on the threads of `executor`, which outlives it.
std::unique_ptr<Engine> MakeHostQueueEngine(Executor& executor);

/// What a GPU would compute, on any machine. Lives as long as the process.
Engine& HostQueueEngine();

}  // namespace sok
