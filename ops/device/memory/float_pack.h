// SPDX-License-Identifier: Apache-2.0
// Rows cut into packs of up to 16 bytes, and the assignment of packs to threads.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "ops/base/halves.h"
#include "ops/base/hash.h"
#include "ops/base/host_device.h"
#include "ops/device/memory/count.h"

namespace sok {

/// Adjacent floats that one thread moves with one instruction.
template <int kWidth>
struct alignas(4 * kWidth) FloatPack {
  static constexpr int width = kWidth;

  float at[kWidth];
};

template <typename Pack>
SOK_HOST_DEVICE Pack LoadPack(const float* address) {
  return *reinterpret_cast<const Pack*>(address);
}

template <typename Pack>
SOK_HOST_DEVICE void StorePack(float* address, const Pack& pack) {
  *reinterpret_cast<Pack*>(address) = pack;
}

/// As many adjacent numbers of two bytes, also moved with one instruction.
template <typename Number, int kWidth>
struct alignas(2 * kWidth) HalfPack {
  Number at[kWidth];
};

/// Widens.
template <typename Pack, typename Number>
SOK_HOST_DEVICE Pack LoadPack(const Number* address) {
  const auto halves = *reinterpret_cast<const HalfPack<Number, Pack::width>*>(address);
  Pack pack;
  SOK_UNROLL
  for (int i = 0; i < Pack::width; ++i) pack.at[i] = Widened(halves.at[i]);
  return pack;
}

/// Rounds the number of column i of the pack by draw(i).
template <typename Pack, typename Number, typename Draw>
SOK_HOST_DEVICE void StorePack(Number* address, const Pack& pack, const Draw& draw) {
  HalfPack<Number, Pack::width> halves;
  SOK_UNROLL
  for (int i = 0; i < Pack::width; ++i) RoundTo(pack.at[i], draw(i), &halves.at[i]);
  *reinterpret_cast<HalfPack<Number, Pack::width>*>(address) = halves;
}
template <typename Pack, typename Draw>
SOK_HOST_DEVICE void StorePack(float* address, const Pack& pack, const Draw&) {
  StorePack(address, pack);
}

/// Rounds to nearest.
template <typename Pack, typename Number>
SOK_HOST_DEVICE void StorePack(Number* address, const Pack& pack) {
  StorePack(address, pack, [](int) { return kToNearest; });
}

/// For outputs that are not read soon: they leave the cache to the index and to rows.
template <typename Pack>
SOK_HOST_DEVICE void StreamPack(float* address, const Pack& pack) {
#ifdef __CUDA_ARCH__
  if constexpr (Pack::width == 4) {
    __stcs(reinterpret_cast<float4*>(address),
           make_float4(pack.at[0], pack.at[1], pack.at[2], pack.at[3]));
  } else {
    __stcs(address, pack.at[0]);
  }
#else
  StorePack(address, pack);
#endif
}

template <typename Pack>
SOK_HOST_DEVICE void AddPack(Pack& sum, const Pack& pack) {
  SOK_UNROLL
  for (int i = 0; i < Pack::width; ++i) sum.at[i] += pack.at[i];
}

template <typename Pack>
SOK_HOST_DEVICE Pack ZeroPack() {
  Pack pack;
  SOK_UNROLL
  for (int i = 0; i < Pack::width; ++i) pack.at[i] = 0.0f;
  return pack;
}

/// Item i of a kernel over packs is pack `column / width` of row i / packs_per_row: neighbouring
/// threads take neighbouring packs, so that short rows fill a warp and long ones are read in order.
template <typename Pack>
class PackGrid {
 public:
  explicit PackGrid(int64_t dim)
      : packs_per_row_(dim / Pack::width),
        // 2^64 / packs_per_row, rounded up: multiplying by it divides exactly while i *
        // packs_per_row is below 2^64.
        reciprocal_(packs_per_row_ == 1 ? 0
                                        : UINT64_MAX / static_cast<uint64_t>(packs_per_row_) + 1) {}

  struct Place {
    int64_t row;
    int64_t column;
  };

  SOK_HOST_DEVICE Place At(int64_t i) const {
    if (packs_per_row_ == 1) return {i, 0};
    const auto row = static_cast<int64_t>(MultiplyHigh(static_cast<uint64_t>(i), reciprocal_));
    return {row, (i - row * packs_per_row_) * Pack::width};
  }
  SOK_HOST_DEVICE int64_t packs_per_row() const { return packs_per_row_; }

 private:
  int64_t packs_per_row_;
  uint64_t reciprocal_;
};

/// Calls body(FloatPack<4>{}) if rows of `dim` numbers in these arrays can be cut into packs of
/// four, else body(FloatPack<1>{}).
template <typename Body>
void WithPack(int64_t dim, std::initializer_list<const void*> arrays, Body&& body) {
  bool is_aligned = dim % 4 == 0;
  for (const void* array : arrays) is_aligned &= reinterpret_cast<uintptr_t>(array) % 16 == 0;
  if (is_aligned) {
    body(FloatPack<4>{});
  } else {
    body(FloatPack<1>{});
  }
}

/// Runs the kernel make_kernel(pack, grid) on all packs of `num_rows` rows of `dim` numbers;
/// `arrays` as in WithPack.
template <typename Queue, typename MakeKernel>
void ForEachPack(Queue& queue, Count num_rows, int64_t dim,
                 std::initializer_list<const void*> arrays, const MakeKernel& make_kernel) {
  WithPack(dim, arrays, [&](auto pack) {
    const PackGrid<decltype(pack)> grid(dim);
    queue.ForEach(num_rows.Times(grid.packs_per_row()), make_kernel(pack, grid));
  });
}

}  // namespace sok
