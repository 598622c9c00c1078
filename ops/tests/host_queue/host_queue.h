// SPDX-License-Identifier: Apache-2.0
// Runs code written for a CUDA stream on CPU threads, so that tests and sanitizers reach it.
//
// Code in ops/device is a template on a queue: HostQueue here, CudaQueue in
// ops/cuda/cuda_queue.cuh. A kernel is a function object called with the number of an item, by many
// threads at once. Kernels of a queue run one after the other; each sees the writes of those
// before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "ops/base/error.h"
#include "ops/base/memory/reserved_memory.h"
#include "ops/base/threads/executor.h"
#include "ops/device/memory/count.h"

namespace sok {

class HostQueue {
 public:
  /// Orders calls on different streams; here, calls have completed when they return.
  using Stream = int;
  static Stream StreamOf(void*) { return 0; }

  /// Address space for `limit_bytes` at a fixed address; pages come with Reserve. See
  /// ops/cuda/growing_memory.h.
  class GrowingMemory {
   public:
    GrowingMemory(HostQueue&, int64_t limit_bytes)
        : memory_(static_cast<size_t>(std::min(limit_bytes, kDeviceBytes)), PageSize::kSmall) {}
    void* data() const { return memory_.data(); }
    int64_t size_bytes() const { return size_bytes_; }
    void Reserve(int64_t size_bytes) {
      if (size_bytes > kDeviceBytes) Throw(ErrorCode::kOutOfMemory, "no ", size_bytes, " bytes");
      size_bytes_ = std::max(size_bytes_, size_bytes);
    }
    void Shrink(int64_t size_bytes) { size_bytes_ = std::min(size_bytes_, size_bytes); }
    void Release() { size_bytes_ = 0; }

   private:
    static constexpr int64_t kDeviceBytes = int64_t{16} << 30;

    ReservedMemory memory_;
    int64_t size_bytes_ = 0;
  };

  /// A value that the host requests and reads once it has arrived, without waiting. Its host memory
  /// is allocated in advance, so that a request cannot fail.
  template <typename Value>
  class LateValue {
   public:
    explicit LateValue(HostQueue&) {}
    void Request(HostQueue&, const Value* source) {
      value_ = *source;
      is_requested_ = true;
      questions_left_ = 2;
    }
    bool is_requested() const { return is_requested_; }
    /// Returns true once the value requested last has arrived; it is then no longer requested.
    bool TryTake(Value* value) {
      if (!is_requested_ || questions_left_-- > 0) return false;  // delayed, as on a busy GPU
      *value = value_;
      is_requested_ = false;
      return true;
    }
    void Forget() { is_requested_ = false; }

   private:
    Value value_;
    bool is_requested_ = false;
    int questions_left_ = 0;
  };

  explicit HostQueue(Executor& executor) : executor_(executor) {}

  void BeginCall(Stream) {}
  void EndCall() {}

  /// Runs kernel(i) for all items i.
  template <typename Kernel>
  void ForEach(Count count, const Kernel& kernel) {
    executor_.ParallelFor(count.value(), kItemNanoseconds, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) kernel(i);
    });
  }

  /// Bit l of the mask of tile t is kernel.Vote(t * kTile + l); then calls kernel.Tally(t, mask)
  /// once per tile.
  template <typename Kernel>
  void ForEachVote(Count count, const Kernel& kernel) {
    const int64_t num_items = count.value();
    executor_.ParallelFor(NumTiles(num_items), kTile * kItemNanoseconds,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t tile = begin; tile < end; ++tile) {
                              uint32_t mask = 0;
                              const int64_t tile_end = std::min((tile + 1) * kTile, num_items);
                              for (int64_t i = tile * kTile; i < tile_end; ++i) {
                                mask |= static_cast<uint32_t>(kernel.Vote(i)) << (i % kTile);
                              }
                              kernel.Tally(tile, mask);
                            }
                          });
  }

  /// Calls looked = kernel.Look(i) for the items of a tile, each on its own thread; then
  /// kernel.Move(i, p, looked) for all items i and p in [0, parts), with the same threads spread
  /// over the parts.
  template <typename Kernel>
  void ForEachLookThenMove(Count count, int64_t parts, const Kernel& kernel) {
    const int64_t num_items = count.value();
    executor_.ParallelFor(NumTiles(num_items), kTile * kItemNanoseconds,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t tile = begin; tile < end; ++tile) {
                              uint32_t looked[kTile];
                              const int64_t first = tile * kTile;
                              const int64_t size = std::min(kTile, num_items - first);
                              for (int64_t i = 0; i < size; ++i) looked[i] = kernel.Look(first + i);
                              for (int64_t j = 0; j < size * parts; ++j) {
                                kernel.Move(first + j / parts, j % parts, looked[j / parts]);
                              }
                            }
                          });
  }

  /// sums[i] = value(0) + ... + value(i - 1) for i in [0, count]; sums has capacity count + 1.
  template <typename ValueOf>
  void ExclusiveSum(int64_t count, const ValueOf& value, int32_t* sums) {
    sums[0] = 0;
    for (int64_t i = 0; i < count; ++i) sums[i + 1] = sums[i] + value(i);
  }

  /// Sorts (key, value) pairs by the low `num_bits` bits of their keys; equal keys keep their
  /// order.
  void StableSort(int64_t count, int num_bits,
                  const uint32_t* keys,      // [count]
                  const int32_t* values,     // [count]
                  uint32_t* sorted_keys,     // [count]
                  int32_t* sorted_values) {  // [count]
    const uint32_t mask = num_bits >= 32 ? ~0u : (1u << num_bits) - 1;
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t left, int64_t right) {
      return (keys[left] & mask) < (keys[right] & mask);
    });
    for (int64_t i = 0; i < count; ++i) {
      sorted_keys[i] = keys[order[static_cast<size_t>(i)]];
      sorted_values[i] = values[order[static_cast<size_t>(i)]];
    }
  }

  void* Allocate(int64_t bytes) { return ::operator new(static_cast<size_t>(bytes)); }
  void Free(void* memory) noexcept { ::operator delete(memory); }

  void FillBytes(void* memory, int byte, int64_t bytes) {
    if (bytes > 0) std::memset(memory, byte, static_cast<size_t>(bytes));
  }
  void CopyOnDevice(void* to, const void* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  /// Waits for all earlier kernels, so that the host's memory is complete on return.
  void CopyToHost(void* to, const void* from, int64_t bytes) { CopyOnDevice(to, from, bytes); }
  /// `from` may be reused on return.
  void CopyFromHost(void* to, const void* from, int64_t bytes) { CopyOnDevice(to, from, bytes); }

 private:
  // High, so that threads share even the small batches of tests.
  static constexpr int64_t kItemNanoseconds = 1000;

  Executor& executor_;
};

}  // namespace sok
