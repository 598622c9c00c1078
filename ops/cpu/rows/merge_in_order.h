// SPDX-License-Identifier: Apache-2.0
// Backward, on one thread: merges the gradients of bags into one per distinct key, without a sort.
#pragma once

#include <cstdint>

#include "ops/cpu/rows/occurrence_gradient.h"
#include "ops/engine/bags.h"

namespace sok {

/// Limit of keys in a batch: each block end takes a search through all of them.
constexpr int64_t kMostMergedInOrder = 16 * kMergeBlock;

/// As MergeGradients, with the same bits.
void MergeInOrder(const Bags& bags, int64_t dim,
                  const float* gradients,  // [num_bags, dim]
                  float* merged);          // [num_distinct, dim]

}  // namespace sok
