// SPDX-License-Identifier: Apache-2.0
// One GPU, and calls on any of its streams that take effect in the order in which they were made.
#ifndef SOK_OPS_CUDA_CUDA_STREAM_ORDER_H_
#define SOK_OPS_CUDA_CUDA_STREAM_ORDER_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sok {

/// Number of GPUs that can be used. Where there is none, `why` says what the CUDA runtime says.
int CountCudaDevices(const char** why);

/// Makes `device` the thread's current one while it lives.
class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int device);
  ~CudaDeviceScope();
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;

 private:
  int previous_ = -1;  // -1: nothing was changed
};

class CudaStreamOrder {
 public:
  /// Throws kCuda, saying what there is, if `device` is not a GPU of this machine.
  explicit CudaStreamOrder(int device);
  ~CudaStreamOrder();
  CudaStreamOrder(const CudaStreamOrder&) = delete;
  CudaStreamOrder& operator=(const CudaStreamOrder&) = delete;

  int device() const { return device_; }
  int64_t num_multiprocessors() const { return num_multiprocessors_; }
  cudaStream_t stream() const { return stream_; }

  /// What follows, up to EndCall, runs on `stream` and after all earlier calls.
  void BeginCall(cudaStream_t stream);
  void EndCall() noexcept;

  /// Memory that is there when what was queued before has run. Throws kOutOfMemory.
  void* Allocate(int64_t bytes);
  /// Gives memory back when what was queued so far has run.
  void Free(void* memory) noexcept;

 private:
  int device_;
  int64_t num_multiprocessors_ = 0;
  int previous_device_ = -1;           // of the thread, before BeginCall
  cudaStream_t own_stream_ = nullptr;  // for what happens outside of calls
  cudaStream_t stream_ = nullptr;      // of the call; own_stream_ outside of calls
  cudaEvent_t last_call_ = nullptr;    // recorded at the end of every call
  bool is_in_call_ = false;
};

/// A few bytes that are copied to the host behind the work of a stream of `device`.
class CudaLateBytes {
 public:
  /// Throws kOutOfMemory if the host gives no pinned memory.
  CudaLateBytes(int device, size_t bytes);
  ~CudaLateBytes();
  CudaLateBytes(const CudaLateBytes&) = delete;
  CudaLateBytes& operator=(const CudaLateBytes&) = delete;

  void Request(cudaStream_t stream, const void* source);
  /// Whether the last requested bytes are in data().
  bool HasCome() const;
  const void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_ = nullptr;
  cudaEvent_t has_come_ = nullptr;
};

}  // namespace sok

#endif  // SOK_OPS_CUDA_CUDA_STREAM_ORDER_H_
