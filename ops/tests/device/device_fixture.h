// SPDX-License-Identifier: Apache-2.0
// Arrays and tables on a queue, for tests that run on CPU threads and, compiled by nvcc, on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/device/device_engine.h"
#include "ops/tests/check.h"

#ifdef __CUDACC__
#include "ops/cuda/cuda_queue.cuh"
#else
#include "ops/tests/conformance/unruly_executor.h"
#include "ops/tests/host_queue/host_queue.h"
#endif

namespace sok::testing {

struct QueueForTests {
#ifdef __CUDACC__
  using Queue = CudaQueue;
  std::shared_ptr<DeviceState<Queue>> state = std::make_shared<DeviceState<Queue>>(0);
#else
  using Queue = HostQueue;
  UnrulyExecutor executor{4};
  std::shared_ptr<DeviceState<Queue>> state = std::make_shared<DeviceState<Queue>>(executor);
#endif
  Queue& queue = state->queue;
};

using TestQueue = QueueForTests::Queue;

using Ids = std::vector<int64_t>;

template <typename Value>
int64_t Size(const std::vector<Value>& values) {
  return static_cast<int64_t>(values.size());
}

/// An array on the queue's device.
template <typename Value>
class DeviceArray {
 public:
  DeviceArray(TestQueue& queue, int64_t count)
      : queue_(queue), count_(count), buffer_(queue, (count + 1) * kBytes) {
    const QueueCall<TestQueue> call(queue, {});
    queue.FillBytes(data(), 0xA5, count * kBytes);  // so that nothing is correct by chance
  }
  DeviceArray(TestQueue& queue, const std::vector<Value>& values)
      : DeviceArray(queue, Size(values)) {
    const QueueCall<TestQueue> call(queue, {});
    queue.CopyFromHost(data(), values.data(), count_ * kBytes);
  }

  Value* data() const { return buffer_.template as<Value>(); }
  std::vector<Value> ToHost() const {
    const QueueCall<TestQueue> call(queue_, {});
    std::vector<Value> values(static_cast<size_t>(count_));
    queue_.CopyToHost(values.data(), data(), count_ * kBytes);
    return values;
  }

 private:
  static constexpr int64_t kBytes = sizeof(Value);

  TestQueue& queue_;
  int64_t count_;
  DeviceBuffer<TestQueue> buffer_;
};

inline TableOptions Options(int64_t capacity, int64_t dim = 3) {
  TableOptions options;
  options.name = "users";
  options.dim = dim;
  options.capacity = capacity;
  options.first_value = {FirstValue::Kind::kUniform, 1.0f, 2.0f, FirstValueStream(1, "users")};
  return options;
}

/// A table on a queue with the plane of its rows.
class DeviceTableWithRows : private QueueForTests {
 public:
  explicit DeviceTableWithRows(const TableOptions& options)
      : table(state, options), rows_(state, {options.capacity, options.dim}) {}

  Ids Find(const Ids& keys) {
    const DeviceArray<int64_t> device_keys(queue, keys);
    const DeviceArray<int64_t> row_ids(queue, Size(keys));
    table.Find(call(), Size(keys), device_keys.data(), row_ids.data());
    return row_ids.ToHost();
  }

  Ids FindOrInsert(const Ids& keys, bool are_distinct = false) {
    const DeviceArray<int64_t> device_keys(queue, keys);
    const DeviceArray<int64_t> row_ids(queue, Size(keys));
    table.FindOrInsert(call(), {Size(keys), device_keys.data(), are_distinct}, {&rows_, {}},
                       row_ids.data());
    return row_ids.ToHost();
  }

  int64_t Erase(const Ids& keys) {
    return table.Erase(call(), Size(keys), DeviceArray<int64_t>(queue, keys).data());
  }

  Call& call() { return *call_; }

  /// Slots of the index. Does not read the counters, which would change what the table knows.
  int64_t NumSlots() const { return table.index().num_buckets * DeviceBucket::kSlots; }

  /// Keys counted as having passed a full bucket.
  int64_t NumPassed() {
    std::vector<DeviceBucket> buckets(static_cast<size_t>(table.index().num_buckets));
    call().CopyToHost(buckets.data(), table.index().buckets, table.index().num_buckets);
    int64_t sum = 0;
    for (const DeviceBucket& bucket : buckets) sum += bucket.num_passed;
    return sum;
  }

  DeviceTable<TestQueue> table;

 private:
  DevicePlane<TestQueue> rows_;
  DeviceEngine<TestQueue> engine_{state};
  std::unique_ptr<Call> call_ = engine_.MakeCall(SerialExecutor(), nullptr);
};

}  // namespace sok::testing
