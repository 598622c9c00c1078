// SPDX-License-Identifier: Apache-2.0
// ReservedMemory on Linux: one private anonymous mapping per object.
#include "ops/base/memory/reserved_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr size_t kMappingsLeft = 16;  // treated as none: other threads map memory, too
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, missing in headers before Linux 6.1

size_t SmallPageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }
size_t RoundDown(size_t value, size_t unit) { return value / unit * unit; }

char* Map(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<char*>(data);
}

/// Maps `bytes`, a multiple of the small page size, at a multiple of the huge page size: the kernel
/// uses huge pages only at such addresses.
char* MapAligned(size_t bytes) {
  char* wide = Map(bytes + kHugePageBytes);
  if (wide == nullptr) return nullptr;
  const size_t address = reinterpret_cast<size_t>(wide);
  const size_t before = RoundUp(address, kHugePageBytes) - address;
  if (before > 0) munmap(wide, before);
  munmap(wide + before + bytes, kHugePageBytes - before);
  return wide + before;
}

/// A number from a file of /proc; 0 if there is none.
size_t ReadNumber(const char* path) {
  size_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

size_t NumMappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

[[noreturn]] void ThrowRefused(size_t size_bytes) {
  const size_t most_mappings = ReadNumber("/proc/sys/vm/max_map_count");
  const size_t num_mappings = NumMappings();
  if (most_mappings > 0 && num_mappings + kMappingsLeft > most_mappings) {
    Throw(ErrorCode::kOutOfMemory, "the system refused ", size_bytes,
          " bytes of address space: this process has ", num_mappings,
          " mappings, and vm.max_map_count allows ", most_mappings,
          "; each table takes several. Raise the limit (sysctl -w vm.max_map_count=",
          4 * most_mappings, "), or create fewer tables");
  }
  Throw(ErrorCode::kOutOfMemory, "the system refused ", size_bytes,
        " bytes of address space; declare a smaller capacity, or raise the limit on virtual memory "
        "(ulimit -v, vm.overcommit_memory)");
}

/// Maps at least `size_bytes`, or throws kOutOfMemory.
char* MapOrThrow(size_t size_bytes, bool is_huge) {
  char* data = nullptr;
  // Leaves space for rounding and alignment.
  if (size_bytes <= SIZE_MAX - 2 * kHugePageBytes) {
    const size_t bytes = RoundUp(size_bytes, SmallPageBytes());
    data = is_huge ? MapAligned(bytes) : Map(bytes);
  }
  if (data == nullptr) ThrowRefused(size_bytes);
  return data;
}

/// Grows a mapping of `old_bytes`, in place or elsewhere, taking address space for the difference
/// only. On MAP_FAILED the mapping is unchanged.
void* Remap(void* data, size_t old_bytes, size_t bytes) {
  if (bytes > SIZE_MAX - SmallPageBytes()) return MAP_FAILED;
  const size_t old_mapped = RoundUp(old_bytes, SmallPageBytes());
  const size_t mapped = RoundUp(bytes, SmallPageBytes());
#ifdef __SANITIZE_THREAD__
  // The sanitizer does not see mremap: it would report the moved memory as a race with the previous
  // user of these addresses.
  void* place = Map(mapped);
  if (place == nullptr) return MAP_FAILED;
  std::memcpy(place, data, old_bytes);
  munmap(data, old_mapped);
  return place;
#else
  return mremap(data, old_mapped, mapped, MREMAP_MAYMOVE);
#endif
}

/// As Remap, but to a multiple of the huge page size, which needs address space for both mappings
/// at once.
void* MoveToAligned(void* data, size_t old_bytes, size_t bytes) {
  if (bytes > SIZE_MAX - 2 * kHugePageBytes) return MAP_FAILED;
  const size_t mapped_bytes = RoundUp(bytes, SmallPageBytes());
  char* place = MapAligned(mapped_bytes);
  if (place == nullptr) return MAP_FAILED;
  void* moved = mremap(data, RoundUp(old_bytes, SmallPageBytes()), mapped_bytes,
                       MREMAP_MAYMOVE | MREMAP_FIXED, place);
  // The kernel checks limits before it touches the target.
  if (moved == MAP_FAILED) munmap(place, mapped_bytes);
  return moved;
}

bool IsHuge(size_t size_bytes, PageSize page_size) {
  return page_size == PageSize::kHuge && size_bytes >= kHugePageBytes;
}

/// A hint only: without support for huge pages the mapping works as it is.
void AdvisePageSize(void* data, size_t size_bytes, bool is_huge) {
  madvise(data, size_bytes, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

}  // namespace

ReservedMemory::ReservedMemory(size_t size_bytes, PageSize page_size) : page_size_(page_size) {
  if (size_bytes == 0) return;
  const bool is_huge = IsHuge(size_bytes, page_size);
  data_ = MapOrThrow(size_bytes, is_huge);
  size_bytes_ = size_bytes;
  AdvisePageSize(data_, size_bytes, is_huge);
}

ReservedMemory::~ReservedMemory() {
  if (data_ != nullptr) munmap(data_, RoundUp(size_bytes_, SmallPageBytes()));
}

ReservedMemory::ReservedMemory(ReservedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      page_size_(other.page_size_) {}

ReservedMemory& ReservedMemory::operator=(ReservedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(page_size_, other.page_size_);
  return *this;
}

void ReservedMemory::Grow(size_t size_bytes) {
  if (size_bytes <= size_bytes_) return;
  if (data_ == nullptr) {
    *this = ReservedMemory(size_bytes, page_size_);
    return;
  }
  const bool is_huge = IsHuge(size_bytes, page_size_);
  // This moves page tables, not pages. Huge pages survive if both addresses are aligned.
  void* moved = is_huge ? MoveToAligned(data_, size_bytes_, size_bytes) : MAP_FAILED;
  if (moved == MAP_FAILED) moved = Remap(data_, size_bytes_, size_bytes);
  if (moved == MAP_FAILED) ThrowRefused(size_bytes);
  AdvisePageSize(moved, size_bytes, is_huge);
  const size_t old_bytes = std::exchange(size_bytes_, size_bytes);
  data_ = moved;
  if (is_huge) UseHugePages(old_bytes);  // they may have been small pages
}

void ReservedMemory::UseSmallPages(size_t end_bytes) {
  const size_t end = RoundDown(std::min(end_bytes, size_bytes_), SmallPageBytes());
  if (end > 0) AdvisePageSize(data_, end, false);
}

void ReservedMemory::UseHugePages(size_t end_bytes) {
  const size_t end = RoundDown(std::min(end_bytes, size_bytes_), kHugePageBytes);
  if (end == 0) return;
  AdvisePageSize(data_, end, true);
  madvise(data_, end, kCollapse);
}

void ReservedMemory::Release(size_t begin_bytes, size_t end_bytes) {
  const size_t begin = RoundUp(begin_bytes, SmallPageBytes());
  const size_t end = end_bytes < size_bytes_ ? RoundDown(end_bytes, SmallPageBytes())
                                             : RoundUp(size_bytes_, SmallPageBytes());
  if (begin < end) madvise(static_cast<char*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace sok
