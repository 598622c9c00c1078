// SPDX-License-Identifier: Apache-2.0
// An op on a GPU: its engine, its stream, temporary memory, and how its kernel is registered.
#ifndef SOK_OPS_TF_DEVICE_CALL_H_
#define SOK_OPS_TF_DEVICE_CALL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/device/device_engine.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// What an op's kernel runs on: the GPU that the op is placed on, or, where its kernel was chosen
/// by the label below, CPU threads. Arrays are in that device's memory.
class DeviceCall {
 public:
  explicit DeviceCall(tensorflow::OpKernelContext* ctx);

  DeviceEngine& engine() const { return engine_; }
  DeviceStream stream() const { return stream_; }

  /// Memory until the op ends.
  template <typename T>
  T* Temporary(int64_t count) {
    return static_cast<T*>(TemporaryBytes(count * static_cast<int64_t>(sizeof(T))));
  }

  /// A temporary copy of `values`, which are on the host.
  template <typename T>
  T* Upload(const std::vector<T>& values) {
    const auto count = static_cast<int64_t>(values.size());
    T* copy = Temporary<T>(count);
    CopyFromHost(copy, values.data(), count);
    return copy;
  }

  template <typename T>
  void CopyFromHost(T* to, const T* from, int64_t count) const {
    engine_.CopyFromHost(stream_, to, from, count * static_cast<int64_t>(sizeof(T)));
  }

  /// Waits.
  template <typename T>
  void CopyToHost(T* to, const T* from, int64_t count) const {
    engine_.CopyToHost(stream_, to, from, count * static_cast<int64_t>(sizeof(T)));
  }
  template <typename T>
  std::vector<T> ToHost(const T* from, int64_t count) const {
    std::vector<T> values(static_cast<size_t>(count));
    CopyToHost(values.data(), from, count);
    return values;
  }

 private:
  void* TemporaryBytes(int64_t bytes);

  tensorflow::OpKernelContext* const ctx_;
  const DeviceStream stream_;
  DeviceEngine& engine_;
  std::vector<tensorflow::Tensor> temporaries_;
};

}  // namespace sok

/// Chooses a GPU's kernels for an op on the CPU: on CPU threads they do what they do on a GPU. For
/// tests, on machines without one.
#define SOK_ON_CPU_THREADS "sok_gpu_kernels_on_cpu_threads"

/// Registers `Kernel` for `definition`, Name("...") and what follows but the device.
#if SOK_HAS_CUDA
#define SOK_REGISTER_DEVICE_KERNEL(definition, Kernel)                                           \
  REGISTER_KERNEL_BUILDER(definition.Device(::tensorflow::DEVICE_CPU).Label(SOK_ON_CPU_THREADS), \
                          Kernel);                                                               \
  REGISTER_KERNEL_BUILDER(definition.Device(::tensorflow::DEVICE_GPU), Kernel)
#else
#define SOK_REGISTER_DEVICE_KERNEL(definition, Kernel)                                           \
  REGISTER_KERNEL_BUILDER(definition.Device(::tensorflow::DEVICE_CPU).Label(SOK_ON_CPU_THREADS), \
                          Kernel)
#endif

#endif  // SOK_OPS_TF_DEVICE_CALL_H_
