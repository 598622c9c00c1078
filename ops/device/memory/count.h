// SPDX-License-Identifier: Apache-2.0
// The number of items of a kernel: known to the host, or computed by an earlier kernel.
#pragma once

#include <cstdint>

#include "ops/base/host_device.h"

namespace sok {

/// Items that share one ballot (a warp) and one word of a mask.
constexpr int64_t kTile = 32;

SOK_HOST_DEVICE inline int64_t NumTiles(int64_t num_items) {
  return (num_items + kTile - 1) / kTile;
}

/// `bound` items or, if `exact` is set, `factor` times the value there when the kernel runs, which
/// is at most `bound`. The host launches for the bound and reads nothing back.
struct Count {
  Count(int64_t count) : bound(count) {}  // NOLINT: a plain number is a count
  Count(int64_t count_bound, const int32_t* count_exact, int64_t count_factor = 1)
      : bound(count_bound), exact(count_exact), factor(count_factor) {}

  Count Times(int64_t items_each) const {
    Count product = *this;
    product.bound *= items_each;
    product.factor *= items_each;
    return product;
  }

  SOK_HOST_DEVICE int64_t value() const { return exact == nullptr ? bound : *exact * factor; }

  int64_t bound;
  const int32_t* exact = nullptr;  // on the device
  int64_t factor = 1;
};

}  // namespace sok
