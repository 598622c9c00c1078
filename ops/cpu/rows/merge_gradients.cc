// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/rows/merge_gradients.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "ops/base/wide_vectors.h"
#include "ops/cpu/rows/bag_factors.h"
#include "ops/cpu/rows/fixed_dim.h"
#include "ops/cpu/rows/merge_in_order.h"
#include "ops/cpu/rows/occurrence_gradient.h"

namespace sok {
namespace {

/// The occurrences of each distinct key: bags[offsets[d]..offsets[d + 1]), in batch order. Arrays
/// of num_keys are allocated uninitialized.
struct Occurrences {
  std::vector<int32_t> offsets;       // [num_distinct + 1]
  std::unique_ptr<int32_t[]> bags;    // [num_keys]
  std::unique_ptr<float[]> weights;   // [num_keys], if the bags have weights
  std::vector<float> weighted_means;  // as WeightedMeans
};

/// Counting sort of the occurrences by distinct key.
Occurrences GroupByDistinctKey(const Bags& bags) {
  Occurrences groups;
  // Counts are shifted by two, so that filling advances each entry to the start of the next group.
  std::vector<int32_t> cursor(static_cast<size_t>(bags.num_distinct) + 2, 0);
  for (int64_t i = 0; i < bags.num_keys; ++i) ++cursor[static_cast<size_t>(bags.inverse[i]) + 2];
  for (size_t d = 2; d < cursor.size(); ++d) cursor[d] += cursor[d - 1];
  groups.bags.reset(new int32_t[static_cast<size_t>(bags.num_keys)]);
  if (bags.weights != nullptr) groups.weights.reset(new float[static_cast<size_t>(bags.num_keys)]);
  groups.weighted_means = WeightedMeans(bags);
  if (bags.combiner == Combiner::kNone) {
    for (int64_t i = 0; i < bags.num_keys; ++i) {
      groups.bags[cursor[static_cast<size_t>(bags.inverse[i]) + 1]++] = static_cast<int32_t>(i);
    }
  } else {
    for (int64_t bag = 0; bag < bags.num_bags; ++bag) {
      for (int64_t i = bags.row_splits[bag]; i < bags.row_splits[bag + 1]; ++i) {
        const int32_t place = cursor[static_cast<size_t>(bags.inverse[i]) + 1]++;
        groups.bags[place] = static_cast<int32_t>(bag);
        if (groups.weights) groups.weights[place] = bags.weights[i];
      }
    }
  }
  cursor.pop_back();
  groups.offsets = std::move(cursor);
  return groups;
}

/// Adds the gradients of occurrences [begin, end) to sum[0..dim).
template <BagFactors kFactors, typename Dim>
SOK_INLINE void AddOccurrences(const Bags& bags, const Occurrences& groups, Dim dim,
                               const float* gradients, int64_t begin, int64_t end,
                               int64_t prefetch_end, float* __restrict sum) {
  const int64_t size = dim;
  const int64_t ahead = PrefetchDistance(NumLines(size));
  for (int64_t i = begin; i < end; ++i) {
    if (i + ahead < prefetch_end) PrefetchRow(gradients + groups.bags[i + ahead] * size, size);
    const int64_t bag = groups.bags[i];
    const float factor =
        FactorOf<kFactors>(bags, groups.weighted_means, bag, groups.weights.get(), i);
    AddGradient<kFactors>(dim, factor, gradients + bag * size, sum);
  }
}

/// Sums by blocks of occurrences, so that all threads share a hot key. A block owns the keys whose
/// first occurrence lies in it; the part of a key that began earlier goes to the block's row of
/// `carries`. A key without occurrences is zeroed with the block where it would be.
class BlockedSum {
 public:
  BlockedSum(const Bags& bags, const Occurrences& groups, int64_t dim, const float* gradients,
             float* merged)
      : bags_(bags),
        groups_(groups),
        dim_(dim),
        gradients_(gradients),
        merged_(merged),
        carries_(static_cast<size_t>(num_blocks() * dim)) {}

  int64_t num_blocks() const { return (bags_.num_keys + kMergeBlock - 1) / kMergeBlock; }

  void SumBlock(int64_t block) {
    const int64_t begin = block * kMergeBlock;
    const int64_t end = std::min(begin + kMergeBlock, bags_.num_keys);
    WithFixedDim(dim_, [&](auto dim) {
      WithBagFactors(bags_, [&](auto factors) {
        SumOccurrences<factors.value>(dim, begin, end, Carry(block));
      });
    });
  }

  /// Zeros the keys without occurrences behind the last key that has some.
  void ClearLastKeys() {
    const int64_t key = FirstKeyFrom(bags_.num_keys);
    std::fill_n(merged_ + key * dim_, (bags_.num_distinct - key) * dim_, 0.0f);
  }

  void AddCarries() {
    for (int64_t block = 1; block < num_blocks(); ++block) {
      const int64_t key = FirstKeyFrom(block * kMergeBlock) - 1;
      float* sum = merged_ + key * dim_;
      const float* carry = Carry(block);
      for (int64_t column = 0; column < dim_; ++column) sum[column] += carry[column];
    }
  }

 private:
  template <BagFactors kFactors, typename Dim>
  SOK_WIDE_VECTORS void SumOccurrences(Dim dim, int64_t begin, int64_t end, float* carry) {
    int64_t key = FirstKeyFrom(begin);
    float* sum = carry;
    int64_t first = begin;
    int64_t stop = std::min<int64_t>(end, groups_.offsets[static_cast<size_t>(key)]);
    for (;;) {  // one call site for carry and sums: GCC would not vectorize a second copy
      AddOccurrences<kFactors>(bags_, groups_, dim, gradients_, first, stop, end, sum);
      if (key == bags_.num_distinct || groups_.offsets[static_cast<size_t>(key)] >= end) return;
      first = groups_.offsets[static_cast<size_t>(key)];
      stop = std::min<int64_t>(end, groups_.offsets[static_cast<size_t>(key) + 1]);
      if (key + kOutputAhead < bags_.num_distinct) PrefetchOutput(merged_, dim, key + kOutputAhead);
      sum = merged_ + key++ * dim_;
      std::fill_n(sum, int64_t{dim}, 0.0f);
    }
  }

  float* Carry(int64_t block) { return carries_.data() + block * dim_; }

  /// The first distinct key whose occurrences begin at or after `occurrence`.
  int64_t FirstKeyFrom(int64_t occurrence) const {
    const auto begin = groups_.offsets.begin();
    return std::lower_bound(begin, groups_.offsets.end() - 1, static_cast<int32_t>(occurrence)) -
           begin;
  }

  const Bags& bags_;
  const Occurrences& groups_;
  const int64_t dim_;
  const float* gradients_;
  float* merged_;
  std::vector<float> carries_;  // [num_blocks, dim]
};

}  // namespace

void MergeGradients(Executor& executor, const Bags& bags, int64_t dim, const float* gradients,
                    float* merged) {
  const int64_t most_in_order = executor.num_threads() == 1 ? kMostMergedInOrder : kMergeBlock;
  if (bags.num_keys <= most_in_order) {
    MergeInOrder(bags, dim, gradients, merged);
    return;
  }
  const Occurrences groups = GroupByDistinctKey(bags);
  BlockedSum sum(bags, groups, dim, gradients, merged);
  const int64_t block_nanoseconds = kMergeBlock * (4 + dim / 8);
  executor.ParallelFor(sum.num_blocks(), block_nanoseconds, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) sum.SumBlock(block);
  });
  sum.AddCarries();
  sum.ClearLastKeys();
}

}  // namespace sok
