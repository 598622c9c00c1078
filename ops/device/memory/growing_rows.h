// SPDX-License-Identifier: Apache-2.0
// A plane of rows in device memory that grows without moving. No table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/base/error.h"
#include "ops/base/memory/reserve_ahead.h"
#include "ops/engine/rows_view.h"

namespace sok {

/// `width` numbers for each row id below num_rows(), zero until written, at a fixed address. Use it
/// within a call to the queue.
template <typename Queue>
class GrowingRows {
 public:
  /// Reserves address space for `capacity` rows, but no memory.
  GrowingRows(Queue& queue, int64_t capacity, int64_t width, Element element = Element::kFloat32)
      : queue_(queue),
        capacity_(capacity),
        width_(width),
        element_(element),
        memory_(queue, LimitRows() * RowBytes()) {}

  RowsView data() const { return {memory_.data(), element_, width_}; }
  int64_t num_rows() const { return num_rows_; }
  int64_t size_bytes() const { return memory_.size_bytes(); }

  /// Grows to at least min(`num_rows`, capacity) rows. Throws kOutOfMemory and leaves the plane as
  /// it was.
  void Reserve(int64_t num_rows) {
    AddMemory(num_rows);
    ZeroMemory();
  }

  // Reserve in two steps. Memory that was not zeroed can be returned: no kernel has used it.

  void AddMemory(int64_t num_rows) {
    num_rows = std::min(num_rows, capacity_);
    if (num_rows <= num_rows_) return;
    if (num_rows > LimitRows()) {
      Throw(ErrorCode::kOutOfMemory, num_rows, " rows of ", width_,
            " numbers are more than a GPU can address");
    }
    memory_.Reserve(num_rows * RowBytes());
  }
  void ZeroMemory() {
    const int64_t bytes = memory_.size_bytes();
    if (bytes == zeroed_bytes_) return;
    queue_.FillBytes(static_cast<char*>(memory_.data()) + zeroed_bytes_, 0, bytes - zeroed_bytes_);
    zeroed_bytes_ = bytes;
    num_rows_ = std::min(capacity_, bytes / RowBytes());
  }
  void ReturnMemory() { memory_.Shrink(zeroed_bytes_); }

  /// Frees all memory. No kernel may be using it.
  void Release() {
    memory_.Release();
    zeroed_bytes_ = num_rows_ = 0;
  }

 private:
  int64_t LimitRows() const {
    constexpr int64_t kAddressBytes = int64_t{1} << 46;  // more than the memory of any GPU
    return std::min(capacity_, kAddressBytes / RowBytes());
  }
  int64_t RowBytes() const { return width_ * ElementBytes(element_); }

  Queue& queue_;
  int64_t capacity_;
  int64_t width_;
  Element element_;
  int64_t zeroed_bytes_ = 0;
  int64_t num_rows_ = 0;
  typename Queue::GrowingMemory memory_;
};

/// The planes that a table's row ids index. The caller owns them.
template <typename Queue>
struct DevicePlanes {
  struct Slot {
    GrowingRows<Queue>* rows;
    float initial_value;  // what a new row holds
  };
  GrowingRows<Queue>* rows = nullptr;  // of width dim, or nullptr: the caller fills the rows
  std::vector<Slot> slots;
  GrowingRows<Queue>* salts = nullptr;  // as Planes::salts

  /// Grows every plane to at least `num_rows` rows, num_rows <= capacity. Throws kOutOfMemory and
  /// leaves all planes as they were: memory taken by one may be needed by another.
  void Reserve(int64_t num_rows) const {
    try {
      ForEach([&](GrowingRows<Queue>& plane) { plane.AddMemory(num_rows); });
    } catch (const Error&) {
      ForEach([](GrowingRows<Queue>& plane) { plane.ReturnMemory(); });
      throw;
    }
    ForEach([](GrowingRows<Queue>& plane) { plane.ZeroMemory(); });
  }

  /// As Reserve, for future rows: at least a quarter more than there are, so that filling planes
  /// rarely grow. Takes less if memory is short; that is not an error.
  void ReserveAhead(int64_t num_rows, int64_t capacity) const {
    const int64_t num_reserved = RoomForRows(capacity);
    const int64_t wanted = std::min(capacity, std::max(num_rows, num_reserved + num_reserved / 4));
    sok::ReserveAhead(num_reserved, wanted, [this](int64_t count) { Reserve(count); });
  }

  /// Rows for which all planes have memory; `most` if there are no planes.
  int64_t RoomForRows(int64_t most) const {
    ForEach([&](const GrowingRows<Queue>& plane) { most = std::min(most, plane.num_rows()); });
    return most;
  }

 private:
  template <typename Call>
  void ForEach(const Call& call) const {
    if (rows != nullptr) call(*rows);
    for (const Slot& slot : slots) call(*slot.rows);
    if (salts != nullptr) call(*salts);
  }
};

}  // namespace sok
