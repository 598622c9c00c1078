// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>

#include "ops/cuda/cuda_driver.h"
#include "ops/cuda/cuda_engine.h"
#include "ops/cuda/cuda_queue.cuh"
#include "ops/device/device_engine.h"

namespace sok {
namespace {

void CheckDriver(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  Throw(ErrorCode::kCuda, "CUDA: ", what, " failed with the driver's error ",
        static_cast<int>(result));
}

/// TensorFlow counts the GPUs that a session sees, CUDA those that the process sees; only the
/// stream identifies the device.
int DeviceOf(DeviceStream stream) {
  CUcontext context = nullptr;
  CheckDriver(SOK_DRIVER(cuStreamGetCtx)(static_cast<CUstream>(stream), &context),
              "finding the GPU of a stream");
  CheckDriver(SOK_DRIVER(cuCtxPushCurrent)(context), "entering the context of a stream");
  CUdevice device = 0;
  const CUresult found = SOK_DRIVER(cuCtxGetDevice)(&device);
  SOK_DRIVER(cuCtxPopCurrent)(&context);
  CheckDriver(found, "finding the GPU of a context");
  return static_cast<int>(device);
}

}  // namespace

Engine& CudaEngine(int device) {
  static std::mutex mutex;
  static auto* engines = new std::map<int, DeviceEngine<CudaQueue>*>();
  const std::lock_guard<std::mutex> lock(mutex);
  DeviceEngine<CudaQueue>*& engine = (*engines)[device];
  if (engine == nullptr) {
    engine = new DeviceEngine<CudaQueue>(std::make_shared<DeviceState<CudaQueue>>(device));
  }
  return *engine;
}

Engine& CudaEngineOf(DeviceStream stream) { return CudaEngine(DeviceOf(stream)); }

}  // namespace sok
