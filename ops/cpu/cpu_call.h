// SPDX-License-Identifier: Apache-2.0
// A call on the host with memory from the heap, for callers that bring none.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/engine/call.h"

namespace sok {

class CpuCall : public Call {
 public:
  CpuCall(Engine& engine, Executor& executor) : engine_(engine), executor_(executor) {}
  Engine& engine() const override { return engine_; }
  Executor& executor() override { return executor_; }
  DeviceStream stream() const override { return nullptr; }

 protected:
  void* TemporaryBytes(int64_t bytes) override;

 private:
  struct Free {
    void operator()(void* block) const;
  };

  Engine& engine_;
  Executor& executor_;
  std::vector<std::unique_ptr<void, Free>> blocks_;
};

}  // namespace sok
