// SPDX-License-Identifier: Apache-2.0
// The test double of a GPU: its kernels run on CPU threads.
#ifndef SOK_OPS_TESTS_HOST_QUEUE_HOST_ENGINE_H_
#define SOK_OPS_TESTS_HOST_QUEUE_HOST_ENGINE_H_

#include <memory>

#include "ops/base/threads/executor.h"
#include "ops/engine/engine.h"

namespace sok {

/// Its kernels run on the threads of `executor`, which outlives it.
std::unique_ptr<Engine> MakeHostQueueEngine(Executor& executor);

/// What a GPU would compute, on any machine. Lives as long as the process.
Engine& HostQueueEngine();

}  // namespace sok

#endif  // SOK_OPS_TESTS_HOST_QUEUE_HOST_ENGINE_H_
