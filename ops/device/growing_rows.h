// SPDX-License-Identifier: Apache-2.0
// A plane of rows in device memory that grows without moving. No table.
#ifndef SOK_OPS_DEVICE_GROWING_ROWS_H_
#define SOK_OPS_DEVICE_GROWING_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/base/error.h"

namespace sok {

/// `width` floats for each row id below num_rows(), at an address that stays.
template <typename Queue>
class GrowingRows {
 public:
  /// Address space for `capacity` rows, no memory yet.
  GrowingRows(Queue& queue, int64_t capacity, int64_t width)
      : capacity_(capacity), width_(width), memory_(queue, LimitBytes(capacity, width)) {}

  float* data() const { return static_cast<float*>(memory_.data()); }
  int64_t width() const { return width_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t size_bytes() const { return memory_.size_bytes(); }

  /// Memory for rows [0, num_rows) at least, num_rows <= capacity. Grows by a quarter or more while
  /// there is memory for that, so that a table that fills up asks rarely. Throws kOutOfMemory, and
  /// the plane is then as before.
  void Reserve(int64_t num_rows) {
    if (num_rows <= num_rows_) return;
    const int64_t wanted = std::min(capacity_, std::max(num_rows, num_rows_ + num_rows_ / 4));
    try {
      memory_.Reserve(wanted * RowBytes());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory || wanted == num_rows) throw;
      memory_.Reserve(num_rows * RowBytes());
    }
    num_rows_ = std::min(capacity_, memory_.size_bytes() / RowBytes());
  }

  /// Gives the memory back. No kernel may be using it.
  void Release() {
    memory_.Release();
    num_rows_ = 0;
  }

 private:
  static int64_t LimitBytes(int64_t capacity, int64_t width) {
    constexpr int64_t kAddressBytes = int64_t{1} << 46;
    if (capacity > kAddressBytes / 4 / width) {
      Throw(ErrorCode::kOutOfMemory, capacity, " rows of ", width,
            " floats are more than a GPU can address; declare a smaller capacity");
    }
    return capacity * width * 4;
  }
  int64_t RowBytes() const { return width_ * static_cast<int64_t>(sizeof(float)); }

  int64_t capacity_;
  int64_t width_;
  int64_t num_rows_ = 0;
  typename Queue::GrowingMemory memory_;
};

/// The planes that a table's row ids index. The caller owns them.
template <typename Queue>
struct DevicePlanes {
  struct Slot {
    GrowingRows<Queue>* rows;
    float initial_value;  // what a row holds when it appears
  };
  GrowingRows<Queue>* rows = nullptr;  // of width dim, or nullptr: the caller fills the rows
  std::vector<Slot> slots;

  void Reserve(int64_t num_rows) const {
    if (rows != nullptr) rows->Reserve(num_rows);
    for (const Slot& slot : slots) slot.rows->Reserve(num_rows);
  }

  /// Rows for which all planes have memory; `most` where there are no planes.
  int64_t RoomForRows(int64_t most) const {
    int64_t room = rows != nullptr ? rows->num_rows() : most;
    for (const Slot& slot : slots) room = std::min(room, slot.rows->num_rows());
    return room;
  }
};

}  // namespace sok

#endif  // SOK_OPS_DEVICE_GROWING_ROWS_H_
