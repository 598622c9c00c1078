// SPDX-License-Identifier: Apache-2.0
// An op's engine: the CPU's, or that of the op's GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/engine/engine.h"
#include "ops/tf/base/border.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// The engine of ops on the CPU, defined in ops/tf/base/engine_of_cpu_device.cc. Tests link another
/// definition.
Engine& EngineOfCpuDevice();

/// The engine of the op's device. Throws kCuda.
Engine& EngineOf(tf::OpKernelContext* ctx);

/// The call of an op to its engine: TensorFlow's threads, the device's stream, and temporary
/// tensors.
class OpCall : public Call {
 public:
  explicit OpCall(tf::OpKernelContext* ctx);
  /// Runs its loops on `executor`, which must outlive it.
  OpCall(tf::OpKernelContext* ctx, Executor& executor);
  OpCall(const OpCall&) = delete;

  Engine& engine() const override { return engine_; }
  Executor& executor() override { return executor_; }
  DeviceStream stream() const override { return stream_; }

 protected:
  void* TemporaryBytes(int64_t bytes) override;

 private:
  tf::OpKernelContext* const ctx_;
  OpExecutor op_executor_;
  Executor& executor_;
  const DeviceStream stream_;
  Engine& engine_;
  std::vector<tf::Tensor> temporaries_;
};

}  // namespace sok
