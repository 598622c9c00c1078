// SPDX-License-Identifier: Apache-2.0
// A CUDA stream with the queue interface of ops/device. See ops/tests/host_queue/host_queue.h.
#pragma once

#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "ops/cuda/cuda_error.h"
#include "ops/cuda/cuda_stream_order.h"
#include "ops/cuda/growing_memory.h"
#include "ops/device/memory/count.h"
#include "ops/device/memory/float_pack.h"

namespace sok {

constexpr int kThreadsPerBlock = 256;

template <typename Kernel>
__global__ void __launch_bounds__(kThreadsPerBlock) RunForEach(Count count, Kernel kernel) {
  const int64_t num_items = count.value();
  const int64_t stride = int64_t{gridDim.x} * kThreadsPerBlock;
#pragma unroll 1  // else what the items share may take more registers than there are
  for (int64_t i = int64_t{blockIdx.x} * kThreadsPerBlock + threadIdx.x; i < num_items;
       i += stride) {
    kernel(i);
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(kThreadsPerBlock) RunForEachVote(Count count, Kernel kernel) {
  const int64_t num_items = count.value();
  const int64_t stride = int64_t{gridDim.x} * kThreadsPerBlock;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // All lanes of a warp iterate together: the ballot needs all of them.
  for (int64_t i = int64_t{blockIdx.x} * kThreadsPerBlock + threadIdx.x; i - lane < num_items;
       i += stride) {
    const bool vote = i < num_items && kernel.Vote(i);
    const unsigned mask = __ballot_sync(~0u, vote);
    if (lane == 0) kernel.Tally(i / kTile, mask);
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(kThreadsPerBlock)
    RunLookThenMove(Count count, PackGrid<FloatPack<1>> parts, Kernel kernel) {
  const int64_t num_items = count.value();
  const int64_t stride = int64_t{gridDim.x} * kThreadsPerBlock;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int num_parts = static_cast<int>(parts.packs_per_row());
  for (int64_t i = int64_t{blockIdx.x} * kThreadsPerBlock + threadIdx.x; i - lane < num_items;
       i += stride) {
    const uint32_t looked = i < num_items ? kernel.Look(i) : 0;
    // 32 items of num_parts parts for 32 lanes: each lane has num_parts iterations.
    for (int turn = 0; turn < num_parts; ++turn) {
      const auto place = parts.At(turn * 32 + lane);
      const auto item = static_cast<int>(place.row);
      const uint32_t of_item = __shfl_sync(~0u, looked, item);
      if (i - lane + item < num_items) kernel.Move(i - lane + item, place.column, of_item);
    }
  }
}

/// value(i), and 0 one past the end, so that the last exclusive sum is the total.
template <typename ValueOf>
struct ValueOrEnd {
  ValueOf value;
  int64_t count;

  SOK_HOST_DEVICE int32_t operator()(int64_t i) const { return i < count ? value(i) : 0; }
};

/// Used by one thread at a time, between BeginCall and EndCall; Allocate and Free also work outside
/// of calls.
class CudaQueue : public CudaStreamOrder {
 public:
  using Stream = cudaStream_t;
  static Stream StreamOf(void* handle) { return static_cast<Stream>(handle); }

  class GrowingMemory : public CudaGrowingMemory {
   public:
    GrowingMemory(CudaQueue& queue, int64_t limit_bytes)
        : CudaGrowingMemory(queue.device(), limit_bytes) {}
  };

  template <typename Value>
  class LateValue {
   public:
    explicit LateValue(CudaQueue& queue) : memory_(queue.device(), sizeof(Value)) {}
    void Request(CudaQueue& queue, const Value* source) {
      memory_.Request(queue.stream(), source);
      is_requested_ = true;
    }
    bool is_requested() const { return is_requested_; }
    bool TryTake(Value* value) {
      if (!is_requested_ || !memory_.IsReady()) return false;
      *value = *static_cast<const Value*>(memory_.data());
      is_requested_ = false;
      return true;
    }
    void Forget() { is_requested_ = false; }

   private:
    CudaLateBytes memory_;
    bool is_requested_ = false;
  };

  /// Throws kCuda, naming the devices that exist, if there is no such GPU.
  explicit CudaQueue(int device) : CudaStreamOrder(device) {}
  ~CudaQueue() {
    if (temporary_ != nullptr) Free(temporary_);
  }

  template <typename Kernel>
  void ForEach(Count count, const Kernel& kernel) {
    if (count.bound <= 0) return;
    RunForEach<<<NumBlocks(count.bound), kThreadsPerBlock, 0, stream()>>>(count, kernel);
    SOK_CUDA_TRY(cudaGetLastError());
  }

  template <typename Kernel>
  void ForEachVote(Count count, const Kernel& kernel) {
    if (count.bound <= 0) return;
    RunForEachVote<<<NumBlocks(count.bound), kThreadsPerBlock, 0, stream()>>>(count, kernel);
    SOK_CUDA_TRY(cudaGetLastError());
  }

  template <typename Kernel>
  void ForEachLookThenMove(Count count, int64_t parts, const Kernel& kernel) {
    if (count.bound <= 0) return;
    RunLookThenMove<<<NumBlocks(count.bound), kThreadsPerBlock, 0, stream()>>>(
        count, PackGrid<FloatPack<1>>(parts), kernel);
    SOK_CUDA_TRY(cudaGetLastError());
  }

  template <typename ValueOf>
  void ExclusiveSum(int64_t count, const ValueOf& value, int32_t* sums) {
    const auto values = thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0),
                                                        ValueOrEnd<ValueOf>{value, count});
    WithTemporary([&](void* memory, size_t& bytes) {
      return cub::DeviceScan::ExclusiveSum(memory, bytes, values, sums,
                                           static_cast<int32_t>(count + 1), stream());
    });
  }

  void StableSort(int64_t count, int num_bits, const uint32_t* keys, const int32_t* values,
                  uint32_t* sorted_keys, int32_t* sorted_values) {
    if (count <= 0) return;
    WithTemporary([&](void* memory, size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, sorted_keys, values,
                                             sorted_values, static_cast<int32_t>(count), 0,
                                             num_bits, stream());
    });
  }

  void FillBytes(void* memory, int byte, int64_t bytes) {
    if (bytes <= 0) return;
    SOK_CUDA_TRY(cudaMemsetAsync(memory, byte, static_cast<size_t>(bytes), stream()));
  }
  void CopyOnDevice(void* to, const void* from, int64_t bytes) {
    if (bytes <= 0) return;
    SOK_CUDA_TRY(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream()));
  }
  void CopyToHost(void* to, const void* from, int64_t bytes) {
    if (bytes <= 0) return;
    SOK_CUDA_TRY(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream()));
    SOK_CUDA_TRY(cudaStreamSynchronize(stream()));
  }
  void CopyFromHost(void* to, const void* from, int64_t bytes) {
    if (bytes <= 0) return;
    SOK_CUDA_TRY(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream()));
    SOK_CUDA_TRY(cudaStreamSynchronize(stream()));
  }

 private:
  /// Enough blocks to fill the GPU a few times, so that stragglers delay little.
  unsigned NumBlocks(int64_t num_items) const {
    constexpr int64_t kBlocksPerMultiprocessor = 4 * 2048 / kThreadsPerBlock;
    return static_cast<unsigned>(std::min((num_items + kThreadsPerBlock - 1) / kThreadsPerBlock,
                                          num_multiprocessors() * kBlocksPerMultiprocessor));
  }

  /// CUB's two calls: the first returns the temporary memory needed, the second does the work.
  /// Keeps the memory.
  template <typename Call>
  void WithTemporary(const Call& call) {
    size_t bytes = 0;
    SOK_CUDA_TRY(call(nullptr, bytes));
    if (temporary_ == nullptr || bytes > temporary_bytes_) {
      void* memory = Allocate(static_cast<int64_t>(bytes + bytes / 2 + 1));
      if (temporary_ != nullptr) Free(temporary_);
      temporary_ = memory;
      temporary_bytes_ = bytes + bytes / 2 + 1;
    }
    SOK_CUDA_TRY(call(temporary_, bytes));
  }

  void* temporary_ = nullptr;
  size_t temporary_bytes_ = 0;
};

}  // namespace sok
