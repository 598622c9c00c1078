// SPDX-License-Identifier: Apache-2.0
// Reserved address space; pages come zeroed with the first touch.
#pragma once

#include <cstddef>

namespace sok {

enum class PageSize {
  kSmall,  // for memory that is touched sparsely
  kHuge,   // a hint: 2 MiB pages, for memory that fills in order or is read at random when full
};

/// An anonymous, unreserved mapping, page-aligned, zero until written. Movable, not copyable.
class ReservedMemory {
 public:
  ReservedMemory() = default;
  /// Throws kOutOfMemory if the address space is refused.
  ReservedMemory(size_t size_bytes, PageSize page_size);
  ~ReservedMemory();
  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory& operator=(ReservedMemory&& other) noexcept;
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;

  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

  /// Grows to `size_bytes`, which is not below the current size. Keeps the contents without copying
  /// pages, but data() may change. Throws kOutOfMemory and leaves the memory as it was.
  void Grow(size_t size_bytes);

  /// The page size that later calls of Grow request.
  void set_page_size(PageSize page_size) { page_size_ = page_size; }

  /// A hint to use small pages up to `end_bytes`, so that a few bytes do not take a huge page. Not
  /// for memory that grows afterwards.
  void UseSmallPages(size_t end_bytes);

  /// Collapses small pages up to `end_bytes` into huge ones. Others may read and write meanwhile.
  /// If the system cannot do it at once, it does it later, or never.
  void UseHugePages(size_t end_bytes);

  /// Returns the pages that lie entirely in [begin_bytes, end_bytes) to the system; they read as
  /// zeros afterwards. If that is the end of the memory, its last page is one of them.
  void Release(size_t begin_bytes, size_t end_bytes);

 private:
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
  PageSize page_size_ = PageSize::kSmall;
};

}  // namespace sok
