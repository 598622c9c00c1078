// SPDX-License-Identifier: Apache-2.0
#include "ops/tests/host_queue/host_engine.h"

#include "ops/device/device_engine.h"
#include "ops/tests/host_queue/host_queue.h"

namespace sok {

std::unique_ptr<Engine> MakeHostQueueEngine(Executor& executor) {
  return std::make_unique<DeviceEngine<HostQueue>>(
      std::make_shared<DeviceState<HostQueue>>(executor));
}

Engine& HostQueueEngine() {
  // Several threads, so that kernels really run concurrently; never destroyed, as static objects
  // outlive main.
  static auto* executor = MakeThreadExecutor(2).release();
  static auto* engine = MakeHostQueueEngine(*executor).release();
  return *engine;
}

}  // namespace sok
