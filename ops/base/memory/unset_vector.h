// SPDX-License-Identifier: Apache-2.0
// A vector whose elements are uninitialized until they are written.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace sok {

/// std::allocator, except that default-constructed elements stay uninitialized.
template <typename T>
struct UnsetAllocator : std::allocator<T> {
  static_assert(std::is_trivially_default_constructible_v<T>);

  template <typename U>
  struct rebind {
    using other = UnsetAllocator<U>;
  };

  UnsetAllocator() = default;
  template <typename U>
  explicit UnsetAllocator(const UnsetAllocator<U>&) {}

  void construct(T*) {}
  template <typename... Values>
  void construct(T* place, Values&&... values) {
    ::new (static_cast<void*>(place)) T(std::forward<Values>(values)...);
  }
};

/// resize() does not clear: for buffers that are overwritten entirely.
template <typename T>
using UnsetVector = std::vector<T, UnsetAllocator<T>>;

}  // namespace sok
