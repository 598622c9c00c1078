// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "ops/base/executor.h"
#include "ops/device/device_engine_on.h"
#include "ops/device/host_queue.h"

namespace sok {

DeviceEngine& HostEngine() {
  // More than one thread, so that kernels meet each other; never destroyed: variables outlive main.
  static auto* executor = MakeThreadExecutor(2).release();
  static auto* engine = new DeviceEngineOn<HostQueue>(*executor);
  return *engine;
}

}  // namespace sok
