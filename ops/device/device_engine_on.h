// SPDX-License-Identifier: Apache-2.0
// DeviceEngine on a queue.
#ifndef SOK_OPS_DEVICE_DEVICE_ENGINE_ON_H_
#define SOK_OPS_DEVICE_DEVICE_ENGINE_ON_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "ops/device/device_engine.h"
#include "ops/device/device_table.h"
#include "ops/device/merging.h"
#include "ops/device/optimizers.h"

namespace sok {

struct WidenKey {
  const uint32_t* keys;
  int64_t* wide_keys;

  SOK_HOST_DEVICE void operator()(int64_t i) const { wide_keys[i] = keys[i]; }
};

struct FillFloat {
  float* to;
  float value;

  SOK_HOST_DEVICE void operator()(int64_t i) const { to[i] = value; }
};

struct NumberRows {
  int64_t* row_ids;

  SOK_HOST_DEVICE void operator()(int64_t i) const { row_ids[i] = i; }
};

/// first = ~0, then the smallest position of a row id outside [0, num_rows).
struct FindFirstWithoutRow {
  const int64_t* row_ids;
  Count num_rows;
  uint32_t* first;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    if (row_ids[i] >= 0 && row_ids[i] < num_rows.value()) return;
    const auto position = static_cast<uint32_t>(i);
    if (position < AtomicLoad(first)) AtomicMin(first, position);
  }
};

/// The queue that all tables and calls of an engine share, one at a time.
template <typename Queue>
struct EngineState {
  template <typename... QueueArguments>
  explicit EngineState(QueueArguments&&... arguments)
      : queue(std::forward<QueueArguments>(arguments)...), scratch(queue) {}

  Queue queue;
  Scratch<Queue> scratch;
  std::mutex mutex;
};

template <typename Queue>
class EnginePlaneOn : public EnginePlane {
 public:
  EnginePlaneOn(std::shared_ptr<EngineState<Queue>> state, int64_t capacity, int64_t width)
      : state_(std::move(state)),
        rows_(state_->queue, std::min(capacity, DeviceTable<Queue>::kMaxKeys), width) {}

  float* data() const override { return rows_.data(); }
  int64_t width() const override { return rows_.width(); }
  int64_t num_rows() const override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return rows_.num_rows();
  }
  void Reserve(int64_t num_rows) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    rows_.Reserve(num_rows);
  }
  GrowingRows<Queue>* rows() { return &rows_; }

 private:
  const std::shared_ptr<EngineState<Queue>> state_;
  GrowingRows<Queue> rows_;
};

template <typename Queue>
class EngineTableOn : public EngineTable {
 public:
  EngineTableOn(std::shared_ptr<EngineState<Queue>> state, const TableOptions& options)
      : state_(std::move(state)),
        table_(std::make_unique<DeviceTable<Queue>>(state_->queue, options)) {}
  ~EngineTableOn() override {
    const std::lock_guard<std::mutex> lock(state_->mutex);  // its memory goes back to the queue
    table_.reset();
  }

  const TableOptions& options() const override { return table_->options(); }

  Size size(DeviceStream stream) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const TableCounters counters = table_->Counters(Queue::StreamOf(stream));
    return {counters.num_keys, counters.num_rows};
  }

  void Find(DeviceStream stream, int64_t num_keys, const int64_t* keys, int64_t* row_ids) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    table_->Find(Queue::StreamOf(stream), num_keys, keys, row_ids);
  }

  void FindOrInsert(DeviceStream stream, int64_t num_keys, const int64_t* keys,
                    bool keys_are_distinct, const float* initial_rows, const EnginePlanes& planes,
                    int64_t* row_ids) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    table_->FindOrInsert(Queue::StreamOf(stream), num_keys, keys, keys_are_distinct, initial_rows,
                         OnQueue(planes), row_ids);
  }

  void Reserve(DeviceStream stream, int64_t num_keys, const EnginePlanes& planes) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    table_->Reserve(Queue::StreamOf(stream), num_keys, OnQueue(planes));
  }

  int64_t Export(DeviceStream stream, int64_t room, int64_t* keys, int64_t* row_ids) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return table_->Export(Queue::StreamOf(stream), room, keys, row_ids);
  }

  void InsertAll(DeviceStream stream, const EnginePlanes& planes) override {
    if (options().use_hash_index) return;
    constexpr int64_t kSliceRows = 1 << 20;
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const typename Scratch<Queue>::Frame frame(state_->scratch);
    const int64_t slice = std::min(kSliceRows, options().capacity);
    auto* keys = state_->scratch.template Take<int64_t>(slice);
    auto* row_ids = state_->scratch.template Take<int64_t>(slice);
    for (int64_t begin = 0; begin < options().capacity; begin += slice) {
      const int64_t count = std::min(slice, options().capacity - begin);
      {
        const QueueCall<Queue> call(state_->queue, Queue::StreamOf(stream));
        state_->queue.ForEach(count, KeysOfRows{DirectRows(options()), begin, keys});
      }
      table_->FindOrInsert(Queue::StreamOf(stream), count, keys, true, nullptr, OnQueue(planes),
                           row_ids);
    }
  }

  int64_t FirstWithoutRow(DeviceStream stream, int64_t num_rows, const int64_t* row_ids) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const QueueCall<Queue> call(state_->queue, Queue::StreamOf(stream));
    const typename Scratch<Queue>::Frame frame(state_->scratch);
    auto* first = state_->scratch.template Take<uint32_t>(1);
    state_->queue.FillBytes(first, 0xff, sizeof(uint32_t));
    state_->queue.ForEach(num_rows, FindFirstWithoutRow{row_ids, table_->RowsInUse(), first});
    uint32_t position = 0;
    state_->queue.CopyToHost(&position, first, sizeof(position));
    return position == UINT32_MAX ? num_rows : int64_t{position};
  }

  void ApplyAdam(DeviceStream stream, const AdamStep& step, float* rows, float* state,
                 int64_t num_gradients, const int64_t* row_ids, const float* gradients) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const QueueCall<Queue> call(state_->queue, Queue::StreamOf(stream));
    const typename Scratch<Queue>::Frame frame(state_->scratch);
    const Count in_use = table_->RowsInUse();
    auto* has_gradient = state_->scratch.template Take<unsigned char>(in_use.bound);
    ApplyAdamToAllRows(state_->queue, step, {options().dim, rows, state}, in_use, num_gradients,
                       row_ids, gradients, has_gradient, table_->BitsOfRows());
  }

 private:
  static DevicePlanes<Queue> OnQueue(const EnginePlanes& planes) {
    const auto rows = [](EnginePlane* plane) {
      return static_cast<EnginePlaneOn<Queue>*>(plane)->rows();
    };
    DevicePlanes<Queue> on_queue;
    if (planes.rows != nullptr) on_queue.rows = rows(planes.rows);
    for (const auto& slot : planes.slots) {
      on_queue.slots.push_back({rows(slot.plane), slot.initial_value});
    }
    return on_queue;
  }

  const std::shared_ptr<EngineState<Queue>> state_;
  std::unique_ptr<DeviceTable<Queue>> table_;
};

template <typename Queue>
class DeviceEngineOn : public DeviceEngine {
 public:
  template <typename... QueueArguments>
  explicit DeviceEngineOn(QueueArguments&&... arguments)
      : state_(std::make_shared<EngineState<Queue>>(std::forward<QueueArguments>(arguments)...)) {}

  std::shared_ptr<EnginePlane> MakePlane(int64_t capacity, int64_t width) override {
    return std::make_shared<EnginePlaneOn<Queue>>(state_, capacity, width);
  }
  std::shared_ptr<EngineTable> MakeTable(const TableOptions& options) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return std::make_shared<EngineTableOn<Queue>>(state_, options);
  }

  void CopyToHost(DeviceStream stream, void* to, const void* from, int64_t bytes) override {
    Run(stream, [&](Queue& queue, auto&) { queue.CopyToHost(to, from, bytes); });
  }
  void CopyFromHost(DeviceStream stream, void* to, const void* from, int64_t bytes) override {
    Run(stream, [&](Queue& queue, auto&) { queue.CopyFromHost(to, from, bytes); });
  }
  void CopyOnDevice(DeviceStream stream, void* to, const void* from, int64_t bytes) override {
    Run(stream, [&](Queue& queue, auto&) { queue.CopyOnDevice(to, from, bytes); });
  }
  void Fill(DeviceStream stream, float* to, int64_t count, float value) override {
    Run(stream, [&](Queue& queue, auto&) { queue.ForEach(count, FillFloat{to, value}); });
  }

  int64_t DistinctKeys(DeviceStream stream, int64_t num_keys, const int64_t* keys,
                       int64_t* distinct_keys, int32_t* inverse) override {
    if (num_keys == 0) return 0;
    int32_t num_distinct = 0;
    Run(stream, [&](Queue& queue, Scratch<Queue>& scratch) {
      const int32_t* count =
          sok::DistinctKeys(queue, scratch, num_keys, keys, distinct_keys, nullptr, inverse);
      queue.CopyToHost(&num_distinct, count, sizeof(num_distinct));
    });
    return num_distinct;
  }
  void WidenKeys(DeviceStream stream, int64_t num_keys, const uint32_t* keys,
                 int64_t* wide_keys) override {
    Run(stream, [&](Queue& queue, auto&) { queue.ForEach(num_keys, WidenKey{keys, wide_keys}); });
  }

  void GatherRows(DeviceStream stream, int64_t num_rows, int64_t dim, const int64_t* row_ids,
                  const float* plane, float* out) override {
    Run(stream,
        [&](Queue& queue, auto&) { sok::GatherRows(queue, num_rows, dim, row_ids, plane, out); });
  }
  void ScatterRows(DeviceStream stream, int64_t num_rows, int64_t dim, const int64_t* row_ids,
                   const float* rows, float* plane) override {
    Run(stream,
        [&](Queue& queue, auto&) { sok::ScatterRows(queue, num_rows, dim, row_ids, rows, plane); });
  }
  void FillAbsentRows(DeviceStream stream, int64_t num_keys, int64_t dim,
                      const FirstValue& first_value, const int64_t* keys, const int64_t* row_ids,
                      float* out) override {
    Run(stream, [&](Queue& queue, auto&) {
      sok::FillAbsentRows(queue, num_keys, dim, first_value, keys, row_ids, out);
    });
  }

  void PoolRows(DeviceStream stream, const Bags& bags, int64_t dim, const float* plane,
                const int64_t* row_ids, const float* absent_values, float* out) override {
    Run(stream, [&](Queue& queue, Scratch<Queue>& scratch) {
      if (row_ids == nullptr) {
        auto* numbers = scratch.template Take<int64_t>(bags.num_distinct);
        queue.ForEach(bags.num_distinct, NumberRows{numbers});
        row_ids = numbers;
      }
      sok::PoolRows(queue, bags, RowSource{plane, row_ids, absent_values, dim}, {}, out);
    });
  }
  void MergeGradients(DeviceStream stream, const Bags& bags, int64_t dim, const float* gradients,
                      float* merged) override {
    Run(stream, [&](Queue& queue, Scratch<Queue>& scratch) {
      sok::MergeGradients(queue, scratch, bags, {}, dim, gradients, merged);
    });
  }

  void ApplyLazyAdam(DeviceStream stream, const AdamStep& step, int64_t dim, float* rows,
                     float* state, int64_t num_gradients, const int64_t* row_ids,
                     const float* gradients) override {
    Run(stream, [&](Queue& queue, auto&) {
      ApplyToRows(queue, AdamRule{step}, {dim, rows, state}, num_gradients, row_ids, gradients);
    });
  }
  void ApplyAdagrad(DeviceStream stream, const AdagradStep& step, int64_t dim, float* rows,
                    float* accumulator, int64_t num_gradients, const int64_t* row_ids,
                    const float* gradients) override {
    Run(stream, [&](Queue& queue, auto&) {
      ApplyToRows(queue, AdagradRule{step}, {dim, rows, accumulator}, num_gradients, row_ids,
                  gradients);
    });
  }

 private:
  /// Calls body(queue, scratch) as one call on the queue.
  template <typename Body>
  void Run(DeviceStream stream, const Body& body) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const QueueCall<Queue> call(state_->queue, Queue::StreamOf(stream));
    const typename Scratch<Queue>::Frame frame(state_->scratch);
    body(state_->queue, state_->scratch);
  }

  const std::shared_ptr<EngineState<Queue>> state_;
};

}  // namespace sok

#endif  // SOK_OPS_DEVICE_DEVICE_ENGINE_ON_H_
