// SPDX-License-Identifier: Apache-2.0
// An op's engine: the CPU's, or that of the op's GPU.
#ifndef SOK_OPS_TF_BASE_ENGINE_OF_OP_H_
#define SOK_OPS_TF_BASE_ENGINE_OF_OP_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/engine/engine.h"
#include "ops/tf/base/border.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// The engine of ops on the CPU, defined in ops/tf/base/engine_of_cpu_device.cc. Tests link another
/// definition.
Engine& EngineOfCpuDevice();

/// The engine of the op's device. Throws kCuda.
Engine& EngineOf(tensorflow::OpKernelContext* ctx);

/// The call of an op to its engine: TensorFlow's threads, the device's stream, and temporary
/// tensors.
class OpCall : public Call {
 public:
  explicit OpCall(tensorflow::OpKernelContext* ctx);
  /// Runs its loops on `executor`, which must outlive it.
  OpCall(tensorflow::OpKernelContext* ctx, Executor& executor);
  OpCall(const OpCall&) = delete;

  Engine& engine() const { return engine_; }
  Executor& executor() override { return executor_; }
  DeviceStream stream() const override { return stream_; }

  /// Waits if the engine's memory is not the host's.
  template <typename T>
  void CopyToHost(T* to, const T* from, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (bytes > 0 && to != from) engine_.CopyToHost(*this, to, from, bytes);
  }
  template <typename T>
  void CopyFromHost(T* to, const T* from, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (bytes > 0 && to != from) engine_.CopyFromHost(*this, to, from, bytes);
  }

  /// `values`, in the engine's memory, for the host to read: the values themselves, or a copy held
  /// by `room`.
  template <typename T>
  const T* OnHost(const T* values, int64_t count, std::vector<T>* room) {
    if (engine_.IsHostMemory()) return values;
    room->resize(static_cast<size_t>(count));
    CopyToHost(room->data(), values, count);
    return room->data();
  }
  /// `values`, on the host, for the engine to read: the values themselves, or a temporary copy.
  template <typename T>
  const T* OnDevice(const T* values, int64_t count) {
    if (engine_.IsHostMemory()) return values;
    T* copy = Temporary<T>(count);
    CopyFromHost(copy, values, count);
    return copy;
  }

 protected:
  void* TemporaryBytes(int64_t bytes) override;

 private:
  tensorflow::OpKernelContext* const ctx_;
  OpExecutor op_executor_;
  Executor& executor_;
  const DeviceStream stream_;
  Engine& engine_;
  std::vector<tensorflow::Tensor> temporaries_;
};

}  // namespace sok

/// Registers `Kernel` for `definition`: Name("...") with HostMemory for everything that stays on
/// the host when the op is on a GPU.
#if SOK_HAS_CUDA
#define SOK_REGISTER_KERNEL(definition, Kernel)                                 \
  REGISTER_KERNEL_BUILDER(definition.Device(::tensorflow::DEVICE_CPU), Kernel); \
  REGISTER_KERNEL_BUILDER(definition.Device(::tensorflow::DEVICE_GPU), Kernel)
#else
#define SOK_REGISTER_KERNEL(definition, Kernel) \
  REGISTER_KERNEL_BUILDER(definition.Device(::tensorflow::DEVICE_CPU), Kernel)
#endif

#endif  // SOK_OPS_TF_BASE_ENGINE_OF_OP_H_
