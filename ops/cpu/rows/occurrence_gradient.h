// SPDX-License-Identifier: Apache-2.0
// The gradient that one occurrence contributes to its key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/base/wide_vectors.h"
#include "ops/cpu/rows/bag_factors.h"

namespace sok {

// Occurrences, in the order of their keys, whose gradients are summed first; a key's sum is the sum
// over such blocks, so that several threads can share a hot key. A constant, as the sums must not
// depend on the machine.
constexpr int64_t kMergeBlock = 4096;

/// 1 / the sum of each bag's weights, added in PoolRows' order; [num_bags] for a weighted mean,
/// else empty.
inline std::vector<float> WeightedMeans(const Bags& bags) {
  if (!HasWeightedMean(bags)) return {};
  std::vector<float> factors(static_cast<size_t>(bags.num_bags));
  for (int64_t bag = 0; bag < bags.num_bags; ++bag) {
    float sum = 0.0f;
    for (int64_t i = bags.row_splits[bag]; i < bags.row_splits[bag + 1]; ++i) {
      sum += bags.weights[i];
    }
    factors[static_cast<size_t>(bag)] = MeanFactor(sum);
  }
  return factors;
}

/// The factor of an occurrence's gradient; it is in `bag` and has weights[occurrence].
template <BagFactors kFactors>
SOK_INLINE float FactorOf(const Bags& bags, const std::vector<float>& weighted_means, int64_t bag,
                          const float* weights, int64_t occurrence) {
  if constexpr (kFactors == BagFactors::kOnes) return 1.0f;
  if constexpr (kFactors == BagFactors::kOfSizes) {
    return MeanFactor(bags.row_splits[bag + 1] - bags.row_splits[bag]);
  }
  if constexpr (kFactors == BagFactors::kGiven) return bags.factors[bag];
  const float factor = weighted_means.empty() ? BagFactor(bags, bag, 0.0f)
                                              : weighted_means[static_cast<size_t>(bag)];
  return factor * weights[occurrence];
}

template <BagFactors kFactors, typename Dim>
SOK_INLINE void AddGradient(Dim dim, float factor, const float* __restrict gradient,
                            float* __restrict sum) {
  const int64_t size = dim;
  if constexpr (kFactors == BagFactors::kOnes) {
    SOK_FOR_COLUMNS
    for (int64_t column = 0; column < size; ++column) sum[column] += gradient[column];
  } else {
    SOK_FOR_COLUMNS
    for (int64_t column = 0; column < size; ++column) sum[column] += factor * gradient[column];
  }
}

}  // namespace sok
