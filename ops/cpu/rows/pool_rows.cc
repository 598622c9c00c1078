// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/rows/pool_rows.h"

#include <algorithm>
#include <vector>

#include "ops/base/wide_vectors.h"
#include "ops/cpu/rows/bag_factors.h"
#include "ops/cpu/rows/fixed_dim.h"

namespace sok {
namespace {

// Keys; a bag's sum is a sum of block sums, so that a million keys lose no more digits than a
// block.
constexpr int64_t kBlock = 1024;

/// Rough nanoseconds to read and write one row: a cache miss, then bandwidth.
int64_t PoolCost(int64_t dim) { return 8 + dim / 8; }

template <typename Dim>
SOK_WIDE_VECTORS void CopyRange(const Bags& bags, Dim dim, const float* const* rows, int64_t begin,
                                int64_t end, float* out) {
  const int64_t size = dim;
  const int64_t ahead = PrefetchDistance(NumLines(size));
  for (int64_t i = begin; i < end; ++i) {
    if (i + ahead < end) PrefetchRow(rows[bags.inverse[i + ahead]], size);
    if (i + kOutputAhead < end) PrefetchOutput(out, size, i + kOutputAhead);
    std::copy_n(rows[bags.inverse[i]], size, out + i * size);
  }
}

/// Adds the row of a key to sum[0..dim), and its weight to weight_sum; with kIsFirst, the sum is
/// known to be 0.
template <BagFactors kFactors, bool kIsFirst, typename Dim>
SOK_INLINE void AddRow(const Bags& bags, Dim dim, const float* const* rows, int64_t key,
                       float* __restrict sum, float& weight_sum) {
  const int64_t size = dim;
  const float* __restrict row = rows[bags.inverse[key]];
  float weight = 1.0f;
  if constexpr (kFactors == BagFactors::kWeighted) {
    weight = bags.weights[key];
    weight_sum += weight;
  }
  SOK_FOR_COLUMNS
  for (int64_t column = 0; column < size; ++column) {
    const float value = kFactors == BagFactors::kWeighted ? weight * row[column] : row[column];
    sum[column] = (kIsFirst ? 0.0f : sum[column]) + value;  // -0 + 0 is 0
  }
}

/// Adds the rows of keys [begin, end) to sum[0..dim), and their weights to weight_sum.
template <BagFactors kFactors, typename Dim>
SOK_INLINE void AddRows(const Bags& bags, Dim dim, const float* const* rows, int64_t begin,
                        int64_t end, int64_t prefetch_end, float* sum, float& weight_sum) {
  const int64_t ahead = PrefetchDistance(NumLines(dim));
  for (int64_t i = begin; i < end; ++i) {
    if (i + ahead < prefetch_end) PrefetchRow(rows[bags.inverse[i + ahead]], dim);
    AddRow<kFactors, false>(bags, dim, rows, i, sum, weight_sum);
  }
}

/// As AddRows, block by block, for a bag that began with the key before `begin`.
template <BagFactors kFactors, typename Dim>
SOK_INLINE void AddBlocks(const Bags& bags, Dim dim, const float* const* rows, int64_t begin,
                          int64_t end, int64_t prefetch_end, std::vector<float>& block_sum,
                          float* sum, float& weight_sum) {
  const int64_t size = dim;
  const int64_t second = std::min(begin - 1 + kBlock, end);
  AddRows<kFactors>(bags, dim, rows, begin, second, prefetch_end, sum, weight_sum);
  for (int64_t block = second; block < end; block += kBlock) {
    block_sum.assign(static_cast<size_t>(size), 0.0f);
    AddRows<kFactors>(bags, dim, rows, block, std::min(block + kBlock, end), prefetch_end,
                      block_sum.data(), weight_sum);
    for (int64_t column = 0; column < size; ++column) {
      sum[column] += block_sum[static_cast<size_t>(column)];
    }
  }
}

/// The factor of the sum of a bag of these occurrences.
template <BagFactors kFactors>
SOK_INLINE float FactorOf(const Bags& bags, int64_t bag, int64_t size, float weight_sum) {
  if constexpr (kFactors == BagFactors::kOnes) return 1.0f;
  if constexpr (kFactors == BagFactors::kOfSizes) return MeanFactor(size);
  return BagFactor(bags, bag, weight_sum);
}

template <BagFactors kFactors, typename Dim>
SOK_WIDE_VECTORS void PoolRange(const Bags& bags, Dim dim, const float* const* rows, int64_t begin,
                                int64_t end, float* out) {
  const int64_t size = dim;
  const int64_t last = bags.row_splits[end];
  const int64_t ahead = PrefetchDistance(NumLines(size));
  std::vector<float> block_sum;
  for (int64_t bag = begin; bag < end; ++bag) {
    float* sum = out + bag * size;
    if (bag + kOutputAhead < end) PrefetchOutput(out, size, bag + kOutputAhead);
    float weight_sum = 0.0f;
    const int64_t first = bags.row_splits[bag];
    const int64_t stop = bags.row_splits[bag + 1];
    if (first == stop) {
      std::fill_n(sum, size, 0.0f);
    } else {
      if (first + ahead < last) PrefetchRow(rows[bags.inverse[first + ahead]], size);
      AddRow<kFactors, true>(bags, dim, rows, first, sum, weight_sum);
    }
    if (first + 1 < stop) {
      AddBlocks<kFactors>(bags, dim, rows, first + 1, stop, last, block_sum, sum, weight_sum);
    }
    const float factor = FactorOf<kFactors>(bags, bag, stop - first, weight_sum);
    if (factor != 1.0f) {
      for (int64_t column = 0; column < size; ++column) sum[column] *= factor;
    }
  }
}

}  // namespace

void PoolRows(Executor& executor, const Bags& bags, int64_t dim, const float* const* rows,
              float* out) {
  if (bags.num_bags == 0) return;
  const int64_t keys_per_bag = 1 + bags.num_keys / bags.num_bags;
  executor.ParallelFor(bags.num_bags, keys_per_bag * PoolCost(dim),
                       [&](int64_t begin, int64_t end) {
                         WithFixedDim(dim, [&](auto fixed_dim) {
                           if (bags.combiner == Combiner::kNone) {
                             CopyRange(bags, fixed_dim, rows, begin, end, out);
                             return;
                           }
                           WithBagFactors(bags, [&](auto factors) {
                             PoolRange<factors.value>(bags, fixed_dim, rows, begin, end, out);
                           });
                         });
                       });
}

}  // namespace sok
