// SPDX-License-Identifier: Apache-2.0
// Options of a plane, on any engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ops/base/memory/page_cache.h"
#include "ops/engine/rows_view.h"

namespace sok {

/// Address space of a process.
constexpr size_t kMostPlaneBytes = size_t{1} << 47;

struct PlaneOptions {
  int64_t capacity = 0;  // rows; kMaxRows if none was declared
  int64_t width = 0;     // numbers of a row
  /// Rows are assigned in the order 0, 1, 2, ..., so pages may be large. Otherwise access is
  /// sparse.
  bool rows_fill_in_order = true;
  Element element = Element::kFloat32;
  /// Rows are in a file of this cache, which the planes of a table share; nullptr: in memory.
  std::shared_ptr<PageCache> storage = nullptr;

  size_t row_bytes() const { return static_cast<size_t>(width * ElementBytes(element)); }
};

/// Throws kInvalidArgument for less than one row or number and for rows wider than all states of a
/// rule, and kOutOfMemory for a declared capacity above kMostPlaneBytes.
void CheckPlaneOptions(const PlaneOptions& options);

}  // namespace sok
