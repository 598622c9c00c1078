// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/cpu_plane.h"

#include <algorithm>

#include "ops/base/error.h"
#include "ops/base/memory/reserve_ahead.h"

namespace sok {
namespace {

constexpr size_t kStartBytes = size_t{4}
                               << 20;  // initial size of a plane that will grow; small pages
constexpr size_t kSmallBytes = size_t{2}
                               << 20;  // small pages of one that will not, until it has more rows
constexpr double kGrowthInMemory = 4;
constexpr double kGrowthOfFile = 1.25;  // which takes the disk

/// Huge pages, after the first few MiB, if rows fill in order; most tables are small. With sparse
/// access each row would commit 2 MiB.
PageSize PageSizeFor(const PlaneOptions& options) {
  return options.rows_fill_in_order ? PageSize::kHuge : PageSize::kSmall;
}

}  // namespace

int64_t PlaneOfHost::StartRows() const {
  return MovesWhenItGrows() ? static_cast<int64_t>(1 + kStartBytes / options_.row_bytes())
                            : options_.capacity;
}

size_t PlaneOfHost::StartBytes() const {
  return static_cast<size_t>(StartRows()) * options_.row_bytes();
}

PlaneOfHost::PlaneOfHost(const PlaneOptions& options, double growth)
    : options_(options), growth_(growth) {
  CheckPlaneOptions(options);
  num_rows_ = StartRows();
}

void PlaneOfHost::Reserve(int64_t num_rows) {
  num_rows = std::min(num_rows, options_.capacity);
  if (num_rows <= num_rows_) return;
  const auto most_rows = static_cast<int64_t>(kMostPlaneBytes / options_.row_bytes());
  if (num_rows > most_rows) {
    Throw(ErrorCode::kOutOfMemory, "a plane of ", num_rows, " rows of ", options_.width,
          " floats does not fit in the address space of 2^47 bytes");
  }
  const auto grown = static_cast<int64_t>(growth_ * static_cast<double>(num_rows_));
  const int64_t wanted = std::min({std::max(num_rows, grown), options_.capacity, most_rows});
  ReserveAhead(num_rows, wanted, [this](int64_t count) {
    Resize(static_cast<size_t>(count) * options_.row_bytes());
    num_rows_ = count;
  });
}

CpuPlane::CpuPlane(const PlaneOptions& options)
    : PlaneOfHost(options, kGrowthInMemory),
      memory_(StartBytes(), MovesWhenItGrows() ? PageSize::kSmall : PageSizeFor(options)),
      starts_with_small_pages_(!MovesWhenItGrows() && options.rows_fill_in_order) {
  if (starts_with_small_pages_) memory_.UseSmallPages(kSmallBytes);
}

void CpuPlane::Resize(size_t size_bytes) {
  memory_.set_page_size(PageSizeFor(options_));
  memory_.Grow(size_bytes);
}

void CpuPlane::ExpectRows(int64_t num_rows) {
  if (!starts_with_small_pages_) return;
  if (static_cast<size_t>(num_rows) * options_.row_bytes() <= kSmallBytes) return;
  // The first rows are those of frequent keys: their pages are accessed the most.
  memory_.UseHugePages(kSmallBytes);
  starts_with_small_pages_ = false;
}

void CpuPlane::Release() { memory_.Release(0, memory_.size_bytes()); }

FilePlane::FilePlane(const PlaneOptions& options)
    : PlaneOfHost(options, kGrowthOfFile),
      file_(std::make_unique<CachedFile>(options.storage, StartBytes())) {
  if (MovesWhenItGrows()) file_->Allocate(StartBytes());
}

void FilePlane::Resize(size_t size_bytes) {
  file_->Grow(size_bytes);
  file_->Allocate(size_bytes);
}

void FilePlane::ExpectRows(int64_t num_rows) {
  num_rows = std::min(num_rows, this->num_rows());
  file_->Allocate(static_cast<size_t>(num_rows) * options_.row_bytes());
}

}  // namespace sok
