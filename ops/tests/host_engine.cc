// SPDX-License-Identifier: Apache-2.0
#include "ops/tests/host_engine.h"

#include "ops/base/executor.h"
#include "ops/device/device_engine.h"
#include "ops/tests/host_queue.h"

namespace sok {

Engine& HostQueueEngine() {
  // More than one thread, so that kernels meet each other; never destroyed: variables outlive main.
  static auto* executor = MakeThreadExecutor(2).release();
  static auto* engine = new DeviceEngine<HostQueue>(*executor);
  return *engine;
}

}  // namespace sok
