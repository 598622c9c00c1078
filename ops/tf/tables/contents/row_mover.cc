// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/row_mover.h"

#include <algorithm>
#include <functional>

namespace sok {
namespace {

constexpr int64_t kPartBytes = 16 << 20;

/// Calls use(first, count) for rows [0, num_rows) in parts.
void ForEachPart(int64_t num_rows, int64_t width,
                 const std::function<void(int64_t first, int64_t count)>& use) {
  const int64_t most = RowsOfPart(width);
  for (int64_t first = 0; first < num_rows; first += most) {
    use(first, std::min(most, num_rows - first));
  }
}

}  // namespace

int64_t RowsOfPart(int64_t width) {
  return std::max<int64_t>(1, kPartBytes / (width * static_cast<int64_t>(sizeof(float))));
}

RowMover::RowMover(OpCall& call, Plane& plane, int64_t most_rows)
    : call_(call), plane_(plane), width_(plane.width()) {
  if (!call.engine().IsHostMemory())
    part_ = call.Temporary<float>(std::min(most_rows, RowsOfPart(width_)) * width_);
}

void RowMover::ToHost(int64_t num_rows, const int64_t* row_ids, float* values) {
  ForEachPart(num_rows, width_, [&](int64_t first, int64_t count) {
    float* read = part_ == nullptr ? values + first * width_ : part_;
    if (absent_) absent_(first, count, read);
    call_.engine().GatherRows(call_, count, row_ids + first, rows(), read);
    call_.CopyToHost(values + first * width_, read, count * width_);
  });
}

void RowMover::FromHost(int64_t num_rows, const int64_t* row_ids, const float* values) {
  ForEachPart(num_rows, width_, [&](int64_t first, int64_t count) {
    const float* written = values + first * width_;
    if (part_ != nullptr) {
      call_.CopyFromHost(part_, written, count * width_);
      written = part_;
    }
    call_.engine().ScatterRows(call_, count, row_ids + first, written, rows());
  });
}

void RowMover::FromHostInOrder(int64_t num_rows, int64_t first_row, const void* values) {
  char* const to = rows().From(first_row).As<char>();
  if (values == to) return;
  ExpectRows(first_row + num_rows);
  call_.CopyFromHost(to, static_cast<const char*>(values),
                     num_rows * width_ * ElementBytes(rows().element));
}

}  // namespace sok
