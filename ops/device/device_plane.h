// SPDX-License-Identifier: Apache-2.0
// Plane on a queue: memory that grows with the rows, at a fixed address.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "ops/device/device_state.h"
#include "ops/device/memory/growing_rows.h"
#include "ops/engine/plane_options.h"
#include "ops/engine/table.h"

namespace sok {

/// Most rows of a plane.
constexpr int64_t kMaxDeviceRows = INT32_MAX;

template <typename Queue>
class DevicePlane : public Plane {
 public:
  DevicePlane(std::shared_ptr<DeviceState<Queue>> state, const PlaneOptions& options)
      : state_(std::move(state)),
        rows_(state_->queue, std::min(options.capacity, kMaxDeviceRows), options.width,
              options.element) {}

  RowsView data() const override { return rows_.data(); }
  int64_t num_rows() const override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return rows_.num_rows();
  }
  /// Waits if the plane grows, so that any stream, even one outside this engine, reads zeros.
  void Reserve(int64_t num_rows) override {
    const DeviceTurn<Queue> turn(*state_, nullptr);
    const int64_t rows_before = rows_.num_rows();
    rows_.Reserve(num_rows);
    if (rows_.num_rows() == rows_before) return;
    char last = 0;
    const void* end = rows_.data().From(rows_.num_rows()).data;
    state_->queue.CopyToHost(&last, static_cast<const char*>(end) - 1, sizeof(last));
  }
  bool MovesWhenItGrows() const override { return false; }
  void Release() override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    rows_.Release();
  }

  GrowingRows<Queue>* rows() { return &rows_; }
  const GrowingRows<Queue>& rows() const { return rows_; }

 private:
  const std::shared_ptr<DeviceState<Queue>> state_;
  GrowingRows<Queue> rows_;
};

}  // namespace sok
