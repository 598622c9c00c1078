// SPDX-License-Identifier: Apache-2.0
// One GPU, and calls on any of its streams that take effect in the order in which they were made.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sok {

/// Number of usable GPUs. If there is none, `why` is the CUDA runtime's explanation.
int CountCudaDevices(const char** why);

/// Makes `device` the thread's current device while it lives.
class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int device);
  ~CudaDeviceScope();
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;

 private:
  int previous_ = -1;  // -1: unchanged
};

class CudaStreamOrder {
 public:
  /// Throws kCuda, naming the devices that exist, if `device` is not a GPU of this machine.
  explicit CudaStreamOrder(int device);
  ~CudaStreamOrder();
  CudaStreamOrder(const CudaStreamOrder&) = delete;
  CudaStreamOrder& operator=(const CudaStreamOrder&) = delete;

  int device() const { return device_; }
  int64_t num_multiprocessors() const { return num_multiprocessors_; }
  cudaStream_t stream() const { return stream_; }

  /// Work until EndCall runs on `stream`, after all earlier calls.
  void BeginCall(cudaStream_t stream);
  void EndCall() noexcept;

  /// Memory that is valid once earlier work on the queue has run. Throws kOutOfMemory.
  void* Allocate(int64_t bytes);
  /// Frees memory once the work queued so far has run.
  void Free(void* memory) noexcept;

 private:
  int device_;
  int64_t num_multiprocessors_ = 0;
  int previous_device_ = -1;           // of the thread, before BeginCall
  cudaStream_t own_stream_ = nullptr;  // for work outside of calls
  cudaStream_t stream_ = nullptr;      // of the call; own_stream_ outside of calls
  cudaEvent_t last_call_ = nullptr;    // recorded at the end of every call
  bool is_in_call_ = false;
};

/// A few bytes that are copied to the host behind the work queued on a stream of `device`.
class CudaLateBytes {
 public:
  /// Throws kOutOfMemory if the host has no pinned memory left.
  CudaLateBytes(int device, size_t bytes);
  ~CudaLateBytes();
  CudaLateBytes(const CudaLateBytes&) = delete;
  CudaLateBytes& operator=(const CudaLateBytes&) = delete;

  void Request(cudaStream_t stream, const void* source);
  /// Whether the bytes requested last are in data().
  bool IsReady() const;
  const void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_ = nullptr;
  cudaEvent_t ready_ = nullptr;
};

}  // namespace sok
