// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cuda_driver.h"
#include "ops/cuda/cuda_stream_order.h"

namespace sok {
namespace {

/// The thread's device; -1 if it has used none. Making an unused device current again would
/// allocate memory on it.
int CurrentDevice() {
  CUcontext context = nullptr;
  if (SOK_DRIVER(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || context == nullptr) return -1;
  int device = -1;
  SOK_CUDA_TRY(cudaGetDevice(&device));
  return device;
}

}  // namespace

int CountCudaDevices(const char** why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  *why = cudaGetErrorString(status == cudaSuccess && count == 0 ? cudaErrorNoDevice : status);
  if (status == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

CudaDeviceScope::CudaDeviceScope(int device) {
  const int current = CurrentDevice();
  if (current == device) return;
  SOK_CUDA_TRY(cudaSetDevice(device));
  previous_ = current;
}

CudaDeviceScope::~CudaDeviceScope() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

CudaStreamOrder::CudaStreamOrder(int device) : device_(device) {
  const char* why = nullptr;
  const int count = CountCudaDevices(&why);
  if (count == 0) {
    Throw(ErrorCode::kCuda, "no CUDA device: ", why, ". This library was built with CUDA ",
          CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10,
          " for the architectures " SOK_CUDA_ARCHITECTURES);
  }
  if (device < 0 || device >= count) {
    Throw(ErrorCode::kCuda, "no CUDA device ", device, ": this machine has ", count,
          ", numbered from 0");
  }
  const CudaDeviceScope scope(device);
  int multiprocessors = 0;
  SOK_CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  num_multiprocessors_ = multiprocessors;
  SOK_CUDA_TRY(cudaStreamCreateWithFlags(&own_stream_, cudaStreamNonBlocking));
  stream_ = own_stream_;
  const cudaError_t status = cudaEventCreateWithFlags(&last_call_, cudaEventDisableTiming);
  if (status != cudaSuccess) cudaStreamDestroy(own_stream_);
  CheckCuda(status, "cudaEventCreateWithFlags");
}

CudaStreamOrder::~CudaStreamOrder() {
  cudaEventDestroy(last_call_);
  cudaStreamDestroy(own_stream_);
}

void CudaStreamOrder::BeginCall(cudaStream_t stream) {
  const int current = CurrentDevice();
  if (current != device_) SOK_CUDA_TRY(cudaSetDevice(device_));
  // Always, not only when the stream changes: a new stream may reuse the handle of a destroyed one.
  const cudaError_t status = cudaStreamWaitEvent(stream, last_call_, 0);
  if (status != cudaSuccess && current != device_ && current >= 0) cudaSetDevice(current);
  CheckCuda(status, "ordering a stream after earlier calls");
  previous_device_ = current != device_ ? current : -1;
  stream_ = stream;
  is_in_call_ = true;
}

void CudaStreamOrder::EndCall() noexcept {
  // A failure here is the device's: the next call reports it.
  cudaEventRecord(last_call_, stream_);
  stream_ = own_stream_;
  is_in_call_ = false;
  if (previous_device_ >= 0) cudaSetDevice(previous_device_);
  previous_device_ = -1;
}

void* CudaStreamOrder::Allocate(int64_t bytes) {
  void* memory = nullptr;
  const auto allocate = [&] {
    SOK_CUDA_TRY(cudaMallocAsync(&memory, static_cast<size_t>(bytes), stream_));
  };
  if (is_in_call_) {
    allocate();
  } else {
    BeginCall(own_stream_);
    try {
      allocate();
    } catch (...) {
      EndCall();
      throw;
    }
    EndCall();
  }
  return memory;
}

void CudaStreamOrder::Free(void* memory) noexcept {
  if (is_in_call_) {
    cudaFreeAsync(memory, stream_);
    return;
  }
  // own_stream_ waits for the last call, whatever its stream was.
  cudaStreamWaitEvent(own_stream_, last_call_, 0);
  cudaFreeAsync(memory, own_stream_);
  cudaEventRecord(last_call_, own_stream_);
}

CudaLateBytes::CudaLateBytes(int device, size_t bytes) : bytes_(bytes) {
  const CudaDeviceScope scope(device);  // an event belongs to the current device
  SOK_CUDA_TRY(cudaMallocHost(&data_, bytes));
  const cudaError_t status = cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming);
  if (status != cudaSuccess) cudaFreeHost(data_);
  CheckCuda(status, "cudaEventCreateWithFlags");
}

CudaLateBytes::~CudaLateBytes() {
  cudaEventSynchronize(ready_);  // the copy writes to data_
  cudaEventDestroy(ready_);
  cudaFreeHost(data_);
}

void CudaLateBytes::Request(cudaStream_t stream, const void* source) {
  SOK_CUDA_TRY(cudaMemcpyAsync(data_, source, bytes_, cudaMemcpyDeviceToHost, stream));
  SOK_CUDA_TRY(cudaEventRecord(ready_, stream));
}

bool CudaLateBytes::IsReady() const {
  const cudaError_t status = cudaEventQuery(ready_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  CheckCuda(status, "a kernel or copy before this call");
  return true;
}

}  // namespace sok
