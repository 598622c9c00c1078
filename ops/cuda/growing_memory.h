// SPDX-License-Identifier: Apache-2.0
// Device memory that grows at a fixed address: CUDA's virtual memory management.
#pragma once

#include <cstdint>
#include <vector>

namespace sok {

/// Address space on one GPU whose beginning is backed by memory, which grows. Kernels may run
/// meanwhile. Not copyable.
class CudaGrowingMemory {
 public:
  /// Throws kOutOfMemory if the address space is refused, kCuda if the driver has no virtual memory
  /// management.
  CudaGrowingMemory(int device, int64_t limit_bytes);
  ~CudaGrowingMemory();
  CudaGrowingMemory(const CudaGrowingMemory&) = delete;
  CudaGrowingMemory& operator=(const CudaGrowingMemory&) = delete;

  void* data() const { return reinterpret_cast<void*>(address_); }
  /// Bytes backed by memory.
  int64_t size_bytes() const { return size_bytes_; }

  /// Backs at least the first `size_bytes` with memory. Existing contents stay; new memory is
  /// uninitialized. Throws kOutOfMemory and leaves the memory as it was.
  void Reserve(int64_t size_bytes);

  /// Frees the parts that Reserve added beyond `size_bytes`. No kernel may have used them.
  void Shrink(int64_t size_bytes);

  /// Frees all memory; the address space stays. Waits for the device.
  void Release();

 private:
  struct Chunk {
    unsigned long long handle;  // CUmemGenericAllocationHandle
    int64_t bytes;
  };

  const int device_;
  int64_t granularity_ = 0;
  int64_t reserved_bytes_ = 0;
  uint64_t address_ = 0;  // CUdeviceptr
  int64_t size_bytes_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace sok
