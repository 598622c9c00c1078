// SPDX-License-Identifier: Apache-2.0
// State shared by all objects of an engine: the queue, its scratch memory, and one call at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/device/memory/scratch.h"
#include "ops/engine/call.h"

namespace sok {

template <typename Queue>
struct DeviceState {
  template <typename... QueueArguments>
  explicit DeviceState(QueueArguments&&... arguments)
      : queue(std::forward<QueueArguments>(arguments)...), scratch(queue) {}

  Queue queue;
  Scratch<Queue> scratch;
  std::mutex mutex;
};

/// One call on the queue: excludes others while it lives, and returns scratch memory at the end.
template <typename Queue>
class DeviceTurn {
 public:
  DeviceTurn(DeviceState<Queue>& state, DeviceStream stream)
      : lock_(state.mutex), call_(state.queue, Queue::StreamOf(stream)), frame_(state.scratch) {}

 private:
  const std::lock_guard<std::mutex> lock_;
  const QueueCall<Queue> call_;
  const typename Scratch<Queue>::Frame frame_;
};

/// A call with temporary device memory.
template <typename Queue>
class DeviceCall : public Call {
 public:
  DeviceCall(Engine& engine, std::shared_ptr<DeviceState<Queue>> state, Executor& executor,
             DeviceStream stream)
      : engine_(engine), state_(std::move(state)), executor_(executor), stream_(stream) {}
  ~DeviceCall() override {
    const std::lock_guard<std::mutex> lock(state_->mutex);  // its memory goes back to the queue
    blocks_.clear();
  }

  Engine& engine() const override { return engine_; }
  Executor& executor() override { return executor_; }
  DeviceStream stream() const override { return stream_; }

 protected:
  void* TemporaryBytes(int64_t bytes) override {
    const DeviceTurn<Queue> turn(*state_, stream_);
    blocks_.emplace_back(state_->queue, bytes > 0 ? bytes : 1);
    return blocks_.back().template as<void>();
  }

 private:
  Engine& engine_;
  const std::shared_ptr<DeviceState<Queue>> state_;
  Executor& executor_;
  const DeviceStream stream_;
  std::vector<DeviceBuffer<Queue>> blocks_;
};

}  // namespace sok
