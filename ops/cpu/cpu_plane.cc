// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/cpu_plane.h"

#include <algorithm>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr size_t kMostBytes = size_t{1} << 47;    // of address space in a process
constexpr size_t kStartBytes = size_t{64} << 20;  // of a plane that will grow
constexpr int64_t kGrowthFactor = 4;

size_t RowBytes(const PlaneOptions& options) {
  return static_cast<size_t>(options.width) * sizeof(float);
}

/// Huge pages where rows fill in order; where they are touched here and there, each would commit
/// 2 MiB for one row.
PageSize PageSizeFor(const PlaneOptions& options) {
  return options.rows_fill_in_order ? PageSize::kHuge : PageSize::kSmall;
}

void CheckPlaneOptions(const PlaneOptions& options) {
  if (options.capacity >= 1 && options.width >= 1 &&
      static_cast<size_t>(options.width) <= kMostBytes / sizeof(float)) {
    return;
  }
  Throw(ErrorCode::kInvalidArgument, "a plane of ", options.capacity, " rows of ", options.width,
        " floats cannot be: it takes at least one row, of 1 to ", kMostBytes / sizeof(float),
        " floats");
}

}  // namespace

CpuPlane::CpuPlane(const PlaneOptions& options) : options_(options) {
  CheckPlaneOptions(options);
  if (TryWhole()) return;
  Reserve(std::min<int64_t>(options.capacity,
                            static_cast<int64_t>(1 + kStartBytes / RowBytes(options))));
}

/// False where no capacity was declared, or the system refuses that much.
bool CpuPlane::TryWhole() {
  if (options_.capacity == kMaxRows) return false;
  if (static_cast<size_t>(options_.capacity) > kMostBytes / RowBytes(options_)) return false;
  const size_t bytes = static_cast<size_t>(options_.capacity) * RowBytes(options_);
  try {
    memory_ = ReservedMemory(bytes, PageSizeFor(options_));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return false;
  }
  num_rows_ = options_.capacity;
  return true;
}

void CpuPlane::Reserve(int64_t num_rows) {
  num_rows = std::min(num_rows, options_.capacity);
  if (num_rows <= num_rows_) return;
  const auto most_rows = static_cast<int64_t>(kMostBytes / RowBytes(options_));
  if (num_rows > most_rows) {
    Throw(ErrorCode::kOutOfMemory, "a plane of ", num_rows, " rows of ", options_.width,
          " floats does not fit in the address space of 2^47 bytes");
  }
  num_rows =
      std::min({std::max(num_rows, kGrowthFactor * num_rows_), options_.capacity, most_rows});
  const size_t bytes = static_cast<size_t>(num_rows) * RowBytes(options_);
  if (memory_.data() == nullptr) {
    memory_ = ReservedMemory(bytes, PageSizeFor(options_));
  } else {
    memory_.Grow(bytes);
  }
  num_rows_ = num_rows;
}

void CpuPlane::Release() { memory_.Release(0, memory_.size_bytes()); }

}  // namespace sok
