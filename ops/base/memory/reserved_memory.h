// SPDX-License-Identifier: Apache-2.0
// Address space whose pages come, zeroed, with the first touch.
#ifndef SOK_OPS_BASE_MEMORY_RESERVED_MEMORY_H_
#define SOK_OPS_BASE_MEMORY_RESERVED_MEMORY_H_

#include <cstddef>
#include <cstdint>

namespace sok {

enum class PageSize {
  kSmall,  // for memory that is touched here and there
  kHuge,   // a wish for 2 MiB pages: for memory that fills in order or is read at random when full
};

/// An anonymous, unreserved mapping, page-aligned, all zeros until written. Movable, not copyable.
class ReservedMemory {
 public:
  ReservedMemory() = default;
  /// Throws kOutOfMemory when the address space is refused.
  ReservedMemory(size_t size_bytes, PageSize page_size);
  ~ReservedMemory();
  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory& operator=(ReservedMemory&& other) noexcept;
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;

  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

  /// Changes the size to `size_bytes`, at least the present one. The contents are kept and no page
  /// is copied, but data() may change. Throws kOutOfMemory, and the memory is then as before.
  void Grow(size_t size_bytes);

  /// The page size that Grow asks for from now on.
  void set_page_size(PageSize page_size) { page_size_ = page_size; }

  /// A wish for small pages up to `end_bytes`, so that few bytes take no huge one. Not for memory
  /// that grows afterwards.
  void UseSmallPages(size_t end_bytes);

  /// The opposite: makes huge pages of what is small up to `end_bytes`. Others may read and write
  /// meanwhile. Where the system cannot do it at once, it does it in time, or not at all.
  void UseHugePages(size_t end_bytes);

  /// Gives the pages that lie wholly inside [begin_bytes, end_bytes) back to the system; they read
  /// as zeros again.
  void Release(size_t begin_bytes, size_t end_bytes);

 private:
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
  PageSize page_size_ = PageSize::kSmall;
};

}  // namespace sok

#endif  // SOK_OPS_BASE_MEMORY_RESERVED_MEMORY_H_
