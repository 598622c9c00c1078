// SPDX-License-Identifier: Apache-2.0
// Engine on a queue.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <variant>

#include "ops/device/device_plane.h"
#include "ops/device/device_state.h"
#include "ops/device/device_table.h"
#include "ops/device/kernels/merging.h"
#include "ops/device/kernels/pooling.h"
#include "ops/device/kernels/row_updates.h"
#include "ops/engine/engine.h"

namespace sok {

template <typename Key>
struct WidenKey {
  const Key* keys;
  int64_t* wide_keys;

  SOK_HOST_DEVICE void operator()(int64_t i) const { wide_keys[i] = keys[i]; }
};

struct FillFloat {
  float* to;
  float value;

  SOK_HOST_DEVICE void operator()(int64_t i) const { to[i] = value; }
};

template <typename Queue>
class DeviceEngine : public Engine {
 public:
  explicit DeviceEngine(std::shared_ptr<DeviceState<Queue>> state) : state_(std::move(state)) {}

  std::shared_ptr<Table> MakeTable(const TableOptions& options) override {
    const auto destroy = [state = state_](Table* table) {
      const std::lock_guard<std::mutex> lock(state->mutex);  // its memory goes back to the queue
      delete table;
    };
    std::unique_ptr<Table> table;
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      table = std::make_unique<DeviceTable<Queue>>(state_, options);
    }
    return {table.release(), destroy};
  }
  std::shared_ptr<Plane> MakePlane(const PlaneOptions& options) override {
    CheckPlaneOptions(options);
    if (options.storage) {
      Throw(ErrorCode::kInvalidArgument, "rows in files need a table on a CPU; this one, in '",
            options.storage->folder(), "', is on a GPU: make it in a scope of tf.device('/CPU:0')");
    }
    return std::make_shared<DevicePlane<Queue>>(state_, options);
  }
  std::unique_ptr<Call> MakeCall(Executor& executor, DeviceStream stream) override {
    return std::make_unique<DeviceCall<Queue>>(*this, state_, executor, stream);
  }
  bool IsHostMemory() const override { return false; }

  void CopyToHost(Call& call, void* to, const void* from, int64_t bytes) override {
    Run(call, [&](Queue& queue, auto&) { queue.CopyToHost(to, from, bytes); });
  }
  void CopyFromHost(Call& call, void* to, const void* from, int64_t bytes) override {
    Run(call, [&](Queue& queue, auto&) { queue.CopyFromHost(to, from, bytes); });
  }
  void CopyOnDevice(Call& call, void* to, const void* from, int64_t bytes) override {
    Run(call, [&](Queue& queue, auto&) { queue.CopyOnDevice(to, from, bytes); });
  }
  void Fill(Call& call, float* to, int64_t count, float value) override {
    Run(call, [&](Queue& queue, auto&) { queue.ForEach(count, FillFloat{to, value}); });
  }

  int64_t DistinctKeys(Call& call, int64_t num_keys, KeysOfAnyType keys, int64_t* distinct_keys,
                       int32_t* inverse) override {
    if (num_keys == 0) return 0;
    CheckBatchSize(num_keys, DeviceTable<Queue>::kMaxBatch);
    int32_t num_distinct = 0;
    Run(call, [&](Queue& queue, Scratch<Queue>& scratch) {
      const int64_t* wide_keys = std::visit(
          [&](const auto* typed) { return Widened(queue, scratch, num_keys, typed); }, keys);
      const int32_t* count =
          sok::DistinctKeys(queue, scratch, num_keys, wide_keys, distinct_keys, nullptr, inverse);
      queue.CopyToHost(&num_distinct, count, sizeof(num_distinct));
    });
    return num_distinct;
  }

  void GatherRows(Call& call, int64_t num_rows, const int64_t* row_ids, const RowsView& plane,
                  float* out) override {
    Run(call, plane, [&](Queue& queue, auto&, const auto* rows) {
      sok::GatherRows(queue, num_rows, plane.width, row_ids, rows, out);
    });
  }
  void ScatterRows(Call& call, int64_t num_rows, const int64_t* row_ids, const float* rows,
                   const RowsView& plane) override {
    Run(call, plane, [&](Queue& queue, auto&, auto* to) {
      sok::ScatterRows(queue, num_rows, plane.width, row_ids, rows, to);
    });
  }
  void AddToRows(Call& call, int64_t num_rows, const int64_t* row_ids, const float* values,
                 const RowsView& plane) override {
    Run(call, [&](Queue& queue, Scratch<Queue>& scratch) {
      sok::AddToRows(queue, scratch, num_rows, row_ids, values, plane);
    });
  }
  void AssignRows(Call& call, int64_t num_rows, const int64_t* row_ids, const float* rows,
                  const RowsView& plane) override {
    Run(call, plane, [&](Queue& queue, Scratch<Queue>& scratch, auto* to) {
      sok::AssignRows(queue, scratch, num_rows, plane.width, row_ids, rows, to);
    });
  }
  void SumRows(Call& call, int64_t first_row, int64_t num_rows, const RowsView& plane,
               uint64_t* sums) override {
    Run(call, plane.From(first_row), [&](Queue& queue, auto&, const auto* rows) {
      using Number = std::remove_pointer_t<decltype(rows)>;
      queue.ForEach(num_rows, SumOfRow<Number>{plane.width, rows, sums});
    });
  }
  void FillAbsentRows(Call& call, int64_t num_keys, int64_t dim, const FirstValue& first_value,
                      const int64_t* keys, const int64_t* row_ids, float* out) override {
    Run(call, [&](Queue& queue, auto&) {
      sok::FillAbsentRows(queue, num_keys, dim, first_value, keys, row_ids, out);
    });
  }

  void PoolRows(Call& call, const Bags& bags, const RowSource& source, float* out) override {
    Run(call, [&](Queue& queue, auto&) { sok::PoolRows(queue, bags, source, out); });
  }
  void MergeGradients(Call& call, const Bags& bags, int64_t dim, const float* gradients,
                      float* merged) override {
    Run(call, [&](Queue& queue, Scratch<Queue>& scratch) {
      sok::MergeGradients(queue, scratch, bags, dim, gradients, merged);
    });
  }
  void CheckBags(Call&, const Bags& bags, const char* what) override { CheckLengths(bags, what); }

 private:
  /// Calls body(queue, scratch) as one call on the queue.
  template <typename Body>
  void Run(const Call& call, const Body& body) {
    const DeviceTurn<Queue> turn(*state_, call.stream());
    body(state_->queue, state_->scratch);
  }
  /// Calls body(queue, scratch, rows of the view).
  template <typename Body>
  void Run(const Call& call, const RowsView& view, const Body& body) {
    WithElement(view, [&](auto* rows) {
      Run(call, [&](Queue& queue, Scratch<Queue>& scratch) { body(queue, scratch, rows); });
    });
  }

  static const int64_t* Widened(Queue&, Scratch<Queue>&, int64_t, const int64_t* keys) {
    return keys;
  }
  template <typename Key>
  static const int64_t* Widened(Queue& queue, Scratch<Queue>& scratch, int64_t num_keys,
                                const Key* keys) {
    auto* wide_keys = scratch.template Take<int64_t>(num_keys);
    queue.ForEach(num_keys, WidenKey<Key>{keys, wide_keys});
    return wide_keys;
  }

  const std::shared_ptr<DeviceState<Queue>> state_;
};

}  // namespace sok
