// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/rows/merge_in_order.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/base/wide_vectors.h"
#include "ops/cpu/rows/fixed_dim.h"
#include "ops/cpu/rows/occurrence_gradient.h"

namespace sok {
namespace {

constexpr int64_t kRun = 16;  // bags tested together

/// Whether each of the next kRun bags has one key; without a branch per bag.
SOK_INLINE bool HaveOneKeyEach(const int64_t* row_splits) {  // [kRun + 1]
  if (row_splits[kRun] - row_splits[0] != kRun) return false;
  int64_t difference = 0;
  for (int64_t i = 0; i < kRun; ++i) difference |= (row_splits[i + 1] - row_splits[i]) ^ 1;
  return difference == 0;
}

/// A place where a key's occurrences continue from one block to the next.
struct BlockEnd {
  int32_t key;
  int32_t num_before;  // occurrences of the key in earlier blocks
  int64_t position;    // in the batch, of the key's first occurrence in the next block
};

/// The position of the occurrence of `key` that has `rank` others before it.
SOK_WIDE_VECTORS int64_t PositionOf(const Bags& bags, int32_t key, int64_t rank) {
  constexpr int64_t kAtOnce = 256;
  for (int64_t begin = 0;; begin += kAtOnce) {
    const int64_t end = std::min(begin + kAtOnce, bags.num_keys);
    int32_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += bags.inverse[i] == key;
    if (count > rank) {
      for (int64_t i = begin;; ++i) {
        if (bags.inverse[i] == key && rank-- == 0) return i;
      }
    }
    rank -= count;
  }
}

/// All block ends of a batch, ascending by key and position; BlockedSum has carries for them.
std::vector<BlockEnd> BlockEnds(const Bags& bags) {
  std::vector<BlockEnd> ends;
  if (bags.num_keys <= kMergeBlock) return ends;
  std::vector<int32_t> counts(static_cast<size_t>(bags.num_distinct), 0);
  for (int64_t i = 0; i < bags.num_keys; ++i) ++counts[static_cast<size_t>(bags.inverse[i])];
  int64_t first = 0;
  int64_t block_end = kMergeBlock;
  for (int32_t key = 0; key < static_cast<int32_t>(counts.size()); ++key) {
    const int64_t stop = first + counts[static_cast<size_t>(key)];
    for (; block_end < stop; block_end += kMergeBlock) {
      const auto num_before = static_cast<int32_t>(block_end - first);
      if (num_before > 0) ends.push_back({key, num_before, PositionOf(bags, key, num_before)});
    }
    first = stop;
  }
  return ends;
}

/// Adds gradients in batch order: three quarters of the single-threaded time of BlockedSum, which
/// sorts first. At a block end, sets the key's sum aside and starts anew, so that the sums have the
/// same bits.
class SumInOrder {
 public:
  SumInOrder(const Bags& bags, int64_t dim, const float* gradients, float* merged)
      : bags_(bags),
        dim_(dim),
        gradients_(gradients),
        merged_(merged),
        weighted_means_(WeightedMeans(bags)),
        ends_(BlockEnds(bags)),
        sums_(ends_.size() * static_cast<size_t>(dim)) {}

  void Sum() {
    std::fill_n(merged_, bags_.num_distinct * dim_, 0.0f);
    std::vector<size_t> by_position(ends_.size());
    std::iota(by_position.begin(), by_position.end(), size_t{0});
    std::sort(by_position.begin(), by_position.end(),
              [&](size_t a, size_t b) { return ends_[a].position < ends_[b].position; });
    int64_t begin = 0;
    for (const size_t end : by_position) {
      Add(begin, ends_[end].position);
      begin = ends_[end].position;
      float* const sum = merged_ + ends_[end].key * dim_;
      std::copy_n(sum, dim_, SumOf(end));
      std::fill_n(sum, dim_, 0.0f);
    }
    Add(begin, bags_.num_keys);
    AddSums();
  }

 private:
  float* SumOf(size_t end) { return sums_.data() + static_cast<int64_t>(end) * dim_; }

  /// Adds occurrences [begin, end), the next ones in order.
  void Add(int64_t begin, int64_t end) {
    WithFixedDim(dim_, [&](auto dim) {
      WithBagFactors(bags_, [&](auto factors) {
        AddRange<factors.value>(bags_, weighted_means_, dim, gradients_, begin, end, bag_, merged_);
      });
    });
  }

  /// Whether the next kRun bags from `bag` on, whose first key would be `key`, have one key each
  /// and the factor 1.
  template <BagFactors kFactors>
  SOK_INLINE static bool IsRun(const Bags& bags, int64_t bag, int64_t key, int64_t num_left) {
    if constexpr (kFactors != BagFactors::kOnes && kFactors != BagFactors::kOfSizes) return false;
    if (num_left < kRun || bag + kRun > bags.num_bags) return false;
    if (bags.combiner == Combiner::kNone) return true;
    return bags.row_splits[bag] == key && HaveOneKeyEach(bags.row_splits + bag);
  }

  /// Adds the gradients of the next kRun occurrences, one per bag.
  template <typename Dim>
  SOK_INLINE static void AddOnes(const Bags& bags, Dim dim, const float* __restrict gradients,
                                 int64_t first, float* __restrict merged) {
    const int64_t size = dim;
    const int64_t ahead = PrefetchDistance(NumLines(size));
    const bool asks = first + kRun + ahead <= bags.num_keys;
    for (int64_t i = 0; i < kRun; ++i) {
      const int32_t* const inverse = bags.inverse + first + i;
      if (asks) PrefetchRow(merged + inverse[ahead] * size, size);
      AddGradient<BagFactors::kOnes>(dim, 1.0f, gradients + i * size, merged + *inverse * size);
    }
  }

  template <BagFactors kFactors, typename Dim>
  SOK_WIDE_VECTORS static void AddRange(const Bags& bags, const std::vector<float>& weighted_means,
                                        Dim dim, const float* __restrict gradients, int64_t begin,
                                        int64_t end, int64_t& next_bag, float* __restrict merged) {
    const int64_t size = dim;
    const int64_t ahead = PrefetchDistance(NumLines(size));
    const bool is_one = bags.combiner == Combiner::kNone;
    int64_t bag = is_one ? begin : next_bag;
    for (int64_t i = begin; i < end;) {
      if (IsRun<kFactors>(bags, bag, i, end - i)) {
        AddOnes(bags, dim, gradients + bag * size, i, merged);
        i += kRun;
        bag += kRun;
        continue;
      }
      const int64_t stop = is_one ? i + 1 : std::min(bags.row_splits[bag + 1], end);
      for (; i < stop; ++i) {
        if (i + ahead < bags.num_keys) PrefetchRow(merged + bags.inverse[i + ahead] * size, size);
        const float factor = FactorOf<kFactors>(bags, weighted_means, bag, bags.weights, i);
        AddGradient<kFactors>(dim, factor, gradients + bag * size, merged + bags.inverse[i] * size);
      }
      if (is_one || stop == bags.row_splits[bag + 1]) ++bag;
    }
    next_bag = bag;
  }

  /// Adds up the sums of each key's blocks, in their order.
  void AddSums() {
    for (size_t end = 0; end < ends_.size();) {
      const int32_t key = ends_[end].key;
      float* const sum = SumOf(end);
      while (++end < ends_.size() && ends_[end].key == key) AddTo(sum, SumOf(end));
      AddTo(sum, merged_ + key * dim_);
      std::copy_n(sum, dim_, merged_ + key * dim_);
    }
  }

  void AddTo(float* sum, const float* other) const {
    for (int64_t column = 0; column < dim_; ++column) sum[column] += other[column];
  }

  const Bags& bags_;
  const int64_t dim_;
  const float* const gradients_;
  float* const merged_;
  const std::vector<float> weighted_means_;
  const std::vector<BlockEnd> ends_;
  std::vector<float> sums_;  // [ends, dim], sums that were set aside
  int64_t bag_ = 0;          // bag of the next occurrence, or an earlier one
};

}  // namespace

void MergeInOrder(const Bags& bags, int64_t dim, const float* gradients, float* merged) {
  SumInOrder(bags, dim, gradients, merged).Sum();
}

}  // namespace sok
