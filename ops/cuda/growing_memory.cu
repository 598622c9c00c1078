// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/cuda/cuda_driver.h"
#include "ops/cuda/cuda_stream_order.h"
#include "ops/cuda/growing_memory.h"

namespace sok {
namespace {

void CheckDriver(CUresult result, const char* what, int64_t bytes) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  SOK_DRIVER(cuGetErrorString)(result, &text);
  const bool is_memory = result == CUDA_ERROR_OUT_OF_MEMORY;
  Throw(is_memory ? ErrorCode::kOutOfMemory : ErrorCode::kCuda, "CUDA: ", what, " of ", bytes,
        " bytes failed: ", text != nullptr ? text : "unknown error",
        is_memory
            ? "; free memory on the GPU, declare smaller capacities, or, if a table was being "
              "restored, restore it before its first step: old and new rows are held at once"
            : "");
}

CUmemAllocationProp Properties(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

/// Bytes of memory of a GPU.
int64_t MemoryOf(int device) {
  const CudaDeviceScope scope(device);
  size_t free_bytes = 0;
  size_t bytes = 0;
  SOK_CUDA_TRY(cudaMemGetInfo(&free_bytes, &bytes));
  return static_cast<int64_t>(bytes);
}

int64_t RoundUp(int64_t bytes, int64_t granularity) {
  return (bytes + granularity - 1) / granularity * granularity;
}

}  // namespace

CudaGrowingMemory::CudaGrowingMemory(int device, int64_t limit_bytes) : device_(device) {
  const CUmemAllocationProp properties = Properties(device);
  size_t granularity = 0;
  CheckDriver(SOK_DRIVER(cuMemGetAllocationGranularity)(&granularity, &properties,
                                                        CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
              "querying the allocation granularity", 0);
  granularity_ = static_cast<int64_t>(granularity);
  // No more than the GPU's memory: many tables without a capacity share the address space.
  limit_bytes = std::min(limit_bytes, MemoryOf(device));
  reserved_bytes_ = RoundUp(std::max<int64_t>(limit_bytes, 1), granularity_);
  CUdeviceptr address = 0;
  CheckDriver(
      SOK_DRIVER(cuMemAddressReserve)(&address, static_cast<size_t>(reserved_bytes_), 0, 0, 0),
      "reserving an address range", reserved_bytes_);
  address_ = address;
}

CudaGrowingMemory::~CudaGrowingMemory() {
  try {
    Release();
  } catch (const Error&) {
    // A failed device has already lost its memory; there is nobody to report to.
  }
  SOK_DRIVER(cuMemAddressFree)(address_, static_cast<size_t>(reserved_bytes_));
}

void CudaGrowingMemory::Reserve(int64_t size_bytes) {
  if (size_bytes > reserved_bytes_) {
    Throw(ErrorCode::kOutOfMemory, "CUDA: allocating ", size_bytes, " bytes for a table's rows ",
          "failed: the GPU has ", reserved_bytes_, "; declare a smaller capacity");
  }
  const int64_t bytes = RoundUp(size_bytes, granularity_) - size_bytes_;
  if (bytes <= 0) return;
  const CUmemAllocationProp properties = Properties(device_);
  CUmemGenericAllocationHandle handle;
  chunks_.reserve(chunks_.size() + 1);  // after mapping, nothing may throw
  CheckDriver(SOK_DRIVER(cuMemCreate)(&handle, static_cast<size_t>(bytes), &properties, 0),
              "allocating memory for rows of a table", bytes);
  const CUdeviceptr begin = address_ + static_cast<uint64_t>(size_bytes_);
  CUresult result = SOK_DRIVER(cuMemMap)(begin, static_cast<size_t>(bytes), 0, handle, 0);
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = SOK_DRIVER(cuMemSetAccess)(begin, static_cast<size_t>(bytes), &access, 1);
    if (result != CUDA_SUCCESS) SOK_DRIVER(cuMemUnmap)(begin, static_cast<size_t>(bytes));
  }
  if (result != CUDA_SUCCESS) SOK_DRIVER(cuMemRelease)(handle);
  CheckDriver(result, "mapping memory for rows of a table", bytes);
  chunks_.push_back({handle, bytes});
  size_bytes_ += bytes;
}

void CudaGrowingMemory::Shrink(int64_t size_bytes) {
  while (!chunks_.empty() && size_bytes_ - chunks_.back().bytes >= size_bytes) {
    const Chunk chunk = chunks_.back();
    chunks_.pop_back();
    size_bytes_ -= chunk.bytes;
    SOK_DRIVER(cuMemUnmap)(address_ + static_cast<uint64_t>(size_bytes_),
                           static_cast<size_t>(chunk.bytes));
    SOK_DRIVER(cuMemRelease)(chunk.handle);
  }
}

void CudaGrowingMemory::Release() {
  if (chunks_.empty()) return;
  cudaError_t status = cudaSuccess;
  {
    const CudaDeviceScope scope(device_);
    status = cudaDeviceSynchronize();
  }
  Shrink(0);
  CheckCuda(status, "waiting for the device before freeing its memory");
}

}  // namespace sok
