// SPDX-License-Identifier: Apache-2.0
// Table on a queue: virtual calls to a DeviceTable, one at a time.
#ifndef SOK_OPS_DEVICE_TABLE_ON_QUEUE_H_
#define SOK_OPS_DEVICE_TABLE_ON_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "ops/device/device_plane.h"
#include "ops/device/device_state.h"
#include "ops/device/device_table.h"
#include "ops/device/kernels/apply_rule.h"

namespace sok {

/// first = the smallest position of a row id outside [0, num_rows); initially ~0.
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

template <typename Queue>
class TableOnQueue : public Table {
 public:
  TableOnQueue(std::shared_ptr<DeviceState<Queue>> state, const TableOptions& options)
      : state_(std::move(state)),
        table_(std::make_unique<DeviceTable<Queue>>(state_->queue, options)) {}
  ~TableOnQueue() override {
    const std::lock_guard<std::mutex> lock(state_->mutex);  // its memory goes back to the queue
    table_.reset();
  }

  const TableOptions& options() const override { return table_->options(); }

  TableSize Size(Call& call) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const TableCounters counters = table_->Counters(StreamOf(call));
    return {counters.num_keys, counters.num_rows};
  }
  int64_t index_bytes() const override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return table_->index_bytes();
  }

  void Find(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    table_->Find(StreamOf(call), num_keys, keys, row_ids);
  }
  void GatherRows(Call& call, int64_t num_keys, const int64_t* keys, const Plane& rows,
                  float* out) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const typename Scratch<Queue>::Frame frame(state_->scratch);
    auto* row_ids = state_->scratch.template Take<int64_t>(num_keys);
    table_->FindAndGatherRows(StreamOf(call), num_keys, keys,
                              static_cast<const DevicePlane<Queue>&>(rows).rows(), row_ids, out);
  }
  void FindOrInsert(Call& call, int64_t num_keys, const int64_t* keys, bool keys_are_distinct,
                    const float* initial_rows, const Planes& planes, int64_t* row_ids) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    table_->FindOrInsert(StreamOf(call), num_keys, keys, keys_are_distinct, initial_rows,
                         OnQueue(planes), row_ids);
  }
  void Reserve(Call& call, int64_t num_keys, const Planes& planes) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    table_->Reserve(StreamOf(call), num_keys, OnQueue(planes));
  }
  int64_t Erase(Call& call, int64_t num_keys, const int64_t* keys) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return table_->Erase(StreamOf(call), num_keys, keys);
  }
  int64_t Evict(Call& call, int64_t num_keys, const int64_t* keys) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return table_->Evict(StreamOf(call), num_keys, keys);
  }
  void ReturnRows(Call& call, int64_t num_rows) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    table_->ReturnRows(StreamOf(call), num_rows);
  }

  TableEntries Export(Call& call) override {
    int64_t* keys = nullptr;
    int64_t* row_ids = nullptr;
    int64_t room = -1;
    // The call's memory is allocated without the lock, so others may insert keys meanwhile.
    for (;;) {
      const int64_t held = TryExport(call, room, keys, row_ids);
      if (held <= room) return {held, keys, row_ids};
      room = held;
      keys = call.Temporary<int64_t>(room);
      row_ids = call.Temporary<int64_t>(room);
    }
  }

  int64_t ExportRows(Call& call, int64_t first_row, int64_t num_rows, int64_t* keys,
                     int64_t* row_ids) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return table_->ExportRows(StreamOf(call), first_row, num_rows, keys, row_ids);
  }

  void Clear(Call& call) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    table_->Clear(StreamOf(call));
  }
  void InsertAll(Call& call, const Planes& planes) override;
  int64_t FirstWithoutRow(Call& call, int64_t count, const int64_t* row_ids) override;
  void ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes, int64_t num_gradients,
                   const int64_t* row_ids, const float* gradients) override;
  void ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                        int64_t num_gradients, const int64_t* row_ids,
                        const float* gradients) override;

 private:
  static typename Queue::Stream StreamOf(const Call& call) {
    return Queue::StreamOf(call.stream());
  }

  static DevicePlanes<Queue> OnQueue(const Planes& planes) {
    const auto rows = [](Plane* plane) { return static_cast<DevicePlane<Queue>*>(plane)->rows(); };
    DevicePlanes<Queue> on_queue;
    if (planes.rows != nullptr) on_queue.rows = rows(planes.rows);
    for (const auto& slot : planes.slots) {
      on_queue.slots.push_back({rows(slot.plane), slot.initial_value});
    }
    return on_queue;
  }

  /// As DeviceTable::Export.
  int64_t TryExport(Call& call, int64_t room, int64_t* keys, int64_t* row_ids) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return table_->Export(StreamOf(call), room, keys, row_ids);
  }

  const std::shared_ptr<DeviceState<Queue>> state_;
  std::unique_ptr<DeviceTable<Queue>> table_;
};

template <typename Queue>
void TableOnQueue<Queue>::InsertAll(Call& call, const Planes& planes) {
  if (options().use_hash_index) return;
  constexpr int64_t kSliceRows = 1 << 20;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const typename Scratch<Queue>::Frame frame(state_->scratch);
  const DirectRows rows = table_->direct_rows();
  const int64_t slice = std::min(kSliceRows, rows.num_rows);
  auto* keys = state_->scratch.template Take<int64_t>(slice);
  auto* row_ids = state_->scratch.template Take<int64_t>(slice);
  for (int64_t begin = 0; begin < rows.num_rows; begin += slice) {
    const int64_t count = std::min(slice, rows.num_rows - begin);
    {
      const QueueCall<Queue> queue_call(state_->queue, StreamOf(call));
      state_->queue.ForEach(count, KeysOfRows{rows, begin, keys});
    }
    table_->FindOrInsert(StreamOf(call), count, keys, true, nullptr, OnQueue(planes), row_ids);
  }
}

template <typename Queue>
int64_t TableOnQueue<Queue>::FirstWithoutRow(Call& call, int64_t count, const int64_t* row_ids) {
  const DeviceTurn<Queue> turn(*state_, call.stream());
  auto* first = state_->scratch.template Take<uint32_t>(1);
  state_->queue.FillBytes(first, 0xff, sizeof(uint32_t));
  state_->queue.ForEach(count, FindFirstWithoutRow{row_ids, table_->RowsInUse(), first});
  uint32_t position = 0;
  state_->queue.CopyToHost(&position, first, sizeof(position));
  return position == UINT32_MAX ? count : int64_t{position};
}

template <typename Queue>
void TableOnQueue<Queue>::ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes,
                                      int64_t num_gradients, const int64_t* row_ids,
                                      const float* gradients) {
  const DeviceTurn<Queue> turn(*state_, call.stream());
  std::visit(
      [&](const auto& one_rule) {
        sok::ApplyToRows(state_->queue, one_rule, planes, table_->RowsInUse(), num_gradients,
                         row_ids, gradients);
      },
      rule);
}

template <typename Queue>
void TableOnQueue<Queue>::ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                                           int64_t num_gradients, const int64_t* row_ids,
                                           const float* gradients) {
  const DeviceTurn<Queue> turn(*state_, call.stream());
  const Count in_use = table_->RowsInUse();
  auto* has_gradient = state_->scratch.template Take<unsigned char>(in_use.bound);
  std::visit(
      [&](const auto& one_rule) {
        ApplyToAllRows(state_->queue, one_rule, planes, in_use, num_gradients, row_ids, gradients,
                       has_gradient, table_->BitsOfRows());
      },
      rule);
}

}  // namespace sok

#endif  // SOK_OPS_DEVICE_TABLE_ON_QUEUE_H_
