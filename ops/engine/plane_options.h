// SPDX-License-Identifier: Apache-2.0
// What a plane is made with, on any engine.
#ifndef SOK_OPS_ENGINE_PLANE_OPTIONS_H_
#define SOK_OPS_ENGINE_PLANE_OPTIONS_H_

#include <cstddef>
#include <cstdint>

namespace sok {

/// Of address space in a process.
constexpr size_t kMostPlaneBytes = size_t{1} << 47;

struct PlaneOptions {
  int64_t capacity = 0;  // rows; kMaxRows where none was declared
  int64_t width = 0;     // floats
  /// Rows are handed out 0, 1, 2, ...: pages may be large. Otherwise they are touched anywhere.
  bool rows_fill_in_order = true;

  size_t row_bytes() const { return static_cast<size_t>(width) * sizeof(float); }
};

/// Throws kInvalidArgument for less than one row or float and for rows wider than all states of a
/// rule, and kOutOfMemory for a declared capacity above kMostPlaneBytes.
void CheckPlaneOptions(const PlaneOptions& options);

}  // namespace sok

#endif  // SOK_OPS_ENGINE_PLANE_OPTIONS_H_
