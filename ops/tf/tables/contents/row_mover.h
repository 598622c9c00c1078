// SPDX-License-Identifier: Apache-2.0
// Moves rows between planes and the host's memory, in parts of little memory.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "ops/tf/tables/resource/table_resource.h"

namespace sok {

/// How many rows of `width` floats are moved at a time.
int64_t RowsOfPart(int64_t width);

/// Moves rows between a plane and the host. row_ids are on the device, values on the host.
class RowMover {
 public:
  /// For any number of rows at a time, at most `most_rows`.
  RowMover(OpCall& call, Plane& plane, int64_t most_rows);

  int64_t width() const { return width_; }
  /// The memory of the plane, on the device.
  RowsView rows() const { return plane_.data(); }

  /// values[i] = row row_ids[i] of the plane, for row ids below 0 what `absent` sets.
  void ToHost(int64_t num_rows, const int64_t* row_ids, float* values);
  /// Sets row row_ids[i] of the plane to values[i].
  void FromHost(int64_t num_rows, const int64_t* row_ids, const float* values);
  /// Sets rows [first, first + count) of the values of ToHost, on the device, before others are
  /// read.
  using Absent = std::function<void(int64_t first, int64_t count, float* to)>;
  void SetAbsent(Absent absent) { absent_ = std::move(absent); }
  /// A hint that rows [0, num_rows) of the plane will be written.
  void ExpectRows(int64_t num_rows) { plane_.ExpectRows(num_rows); }
  /// Sets rows [first_row, first_row + num_rows) of the plane to `values` of its element, unless
  /// they are already there.
  void FromHostInOrder(int64_t num_rows, int64_t first_row, const void* values);

 private:
  OpCall& call_;
  Plane& plane_;
  const int64_t width_;
  float* part_ = nullptr;  // on the device; nullptr if that is the host's memory
  Absent absent_;
};

}  // namespace sok
