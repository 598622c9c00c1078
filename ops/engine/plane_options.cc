// SPDX-License-Identifier: Apache-2.0
#include "ops/engine/plane_options.h"

#include "ops/base/error.h"
#include "ops/engine/rules.h"
#include "ops/engine/table_options.h"

namespace sok {

void CheckPlaneOptions(const PlaneOptions& options) {
  if (options.capacity < 1 || options.width < 1) {
    Throw(ErrorCode::kInvalidArgument, "a plane needs at least one row of one float, got ",
          options.capacity, " rows of ", options.width);
  }
  constexpr size_t kMostFloats = kMostPlaneBytes / sizeof(float);
  const auto width = static_cast<size_t>(options.width);
  const bool is_declared = options.capacity != kMaxRows;
  if (is_declared &&
      (width > kMostFloats || static_cast<size_t>(options.capacity) > kMostFloats / width)) {
    Throw(ErrorCode::kOutOfMemory, "a table of ", options.capacity, " rows of ", options.width,
          " floats does not fit in the address space of 2^47 bytes; declare a smaller capacity");
  }
  constexpr int64_t kMostWidth = kMaxDim * kMaxStates;  // of a slot that holds all states of a rule
  if (options.width > kMostWidth) {
    Throw(ErrorCode::kInvalidArgument, "rows of ", options.width, " floats are above the limit of ",
          kMostWidth);
  }
}

}  // namespace sok
