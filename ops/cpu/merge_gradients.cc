// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/merge_gradients.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "ops/base/wide_vectors.h"
#include "ops/cpu/bag_factors.h"
#include "ops/cpu/fixed_dim.h"
#include "ops/cpu/one_key_bags.h"

namespace sok {
namespace {

// Occurrences, in the order of their keys: a key's sum is one of sums within such blocks, so that
// several threads can share a hot key. A constant, or the sums would depend on the machine.
constexpr int64_t kBlock = 4096;
// Each end of a block is looked for in the whole batch.
constexpr int64_t kMostInOrder = 16 * kBlock;

/// The occurrences of each distinct key: bags[offsets[d]..offsets[d + 1]), in batch order. Arrays
/// of num_keys are not filled before they are written.
struct Occurrences {
  std::vector<int32_t> offsets;       // [num_distinct + 1]
  std::unique_ptr<int32_t[]> bags;    // [num_keys]
  std::unique_ptr<float[]> weights;   // [num_keys], where the bags have them
  std::vector<float> weighted_means;  // as WeightedMeans
};

/// 1 / the sum of each bag's weights, as PoolRows adds them up; [num_bags] where the mean is one of
/// weights, else empty.
std::vector<float> WeightedMeans(const Bags& bags) {
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

/// A counting sort of the occurrences by distinct key.
Occurrences GroupByDistinctKey(const Bags& bags) {
  Occurrences groups;
  // Counted two places on, so that filling moves each entry to the start of its own group's
  // successor.
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

/// What the gradient of an occurrence is multiplied by; it is in `bag` and has weights[occurrence].
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

/// Sums by blocks of occurrences, so that one hot key is shared by all threads. A block owns the
/// keys whose first occurrence lies in it; what belongs to a key that began earlier goes to the
/// block's row of `carries`. Keys without occurrences get zeros with the block where they would be.
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

  int64_t num_blocks() const { return (bags_.num_keys + kBlock - 1) / kBlock; }

  void SumBlock(int64_t block) {
    const int64_t begin = block * kBlock;
    const int64_t end = std::min(begin + kBlock, bags_.num_keys);
    WithFixedDim(dim_, [&](auto dim) {
      WithBagFactors(bags_, [&](auto factors) {
        SumOccurrences<factors.value>(dim, begin, end, Carry(block));
      });
    });
  }

  /// Those without occurrences behind the last one that has some.
  void ClearLastKeys() {
    const int64_t key = FirstKeyFrom(bags_.num_keys);
    std::fill_n(merged_ + key * dim_, (bags_.num_distinct - key) * dim_, 0.0f);
  }

  void AddCarries() {
    for (int64_t block = 1; block < num_blocks(); ++block) {
      const int64_t key = FirstKeyFrom(block * kBlock) - 1;
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
    for (;;) {  // one call for carry and sums: a second copy of it would not use vectors
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

/// Where a key's sum by blocks goes from one block to the next.
struct BlockEnd {
  int32_t key;
  int32_t num_before;  // occurrences of the key in blocks before
  int64_t position;    // in the batch, of the first occurrence after
};

/// The number of the occurrence of `key` that has `rank` others before it.
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

/// All that there are in the batch, ascending by key and place; what BlockedSum has carries for.
std::vector<BlockEnd> BlockEnds(const Bags& bags) {
  std::vector<BlockEnd> ends;
  if (bags.num_keys <= kBlock) return ends;
  std::vector<int32_t> counts(static_cast<size_t>(bags.num_distinct), 0);
  for (int64_t i = 0; i < bags.num_keys; ++i) ++counts[static_cast<size_t>(bags.inverse[i])];
  int64_t first = 0;
  int64_t block_end = kBlock;
  for (int32_t key = 0; key < static_cast<int32_t>(counts.size()); ++key) {
    const int64_t stop = first + counts[static_cast<size_t>(key)];
    for (; block_end < stop; block_end += kBlock) {
      const auto num_before = static_cast<int32_t>(block_end - first);
      if (num_before > 0) ends.push_back({key, num_before, PositionOf(bags, key, num_before)});
    }
    first = stop;
  }
  return ends;
}

/// Adds gradients up as they come: three quarters of the time that BlockedSum takes on one thread,
/// which sorts them first. Where that would begin another block of a key, the sum so far is put
/// aside and begun anew, so that the sums have the same bits.
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

  /// Those of the occurrences [begin, end), which come after those that have been added.
  void Add(int64_t begin, int64_t end) {
    WithFixedDim(dim_, [&](auto dim) {
      WithBagFactors(bags_, [&](auto factors) {
        AddRange<factors.value>(bags_, weighted_means_, dim, gradients_, begin, end, bag_, merged_);
      });
    });
  }

  /// Whether the bags from `bag` on, whose keys begin with the next one, `key`, are a run of one
  /// key each that has the factor 1.
  template <BagFactors kFactors>
  SOK_INLINE static bool IsRun(const Bags& bags, int64_t bag, int64_t key, int64_t num_left) {
    if constexpr (kFactors != BagFactors::kOnes && kFactors != BagFactors::kOfSizes) return false;
    if (num_left < kRun || bag + kRun > bags.num_bags) return false;
    if (bags.combiner == Combiner::kNone) return true;
    return bags.row_splits[bag] == key && HaveOneKeyEach(bags.row_splits + bag);
  }

  /// The gradients of the next kRun occurrences, one after another.
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

  /// The sums of a key's blocks, in their order.
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
  std::vector<float> sums_;  // [ends, dim], what is put aside
  int64_t bag_ = 0;          // of the next occurrence, or before
};

}  // namespace

void MergeGradients(Executor& executor, const Bags& bags, int64_t dim, const float* gradients,
                    float* merged) {
  const int64_t most_in_order = executor.num_threads() == 1 ? kMostInOrder : kBlock;
  if (bags.num_keys <= most_in_order) {
    SumInOrder(bags, dim, gradients, merged).Sum();
    return;
  }
  const Occurrences groups = GroupByDistinctKey(bags);
  BlockedSum sum(bags, groups, dim, gradients, merged);
  const int64_t block_nanoseconds = kBlock * (4 + dim / 8);
  executor.ParallelFor(sum.num_blocks(), block_nanoseconds, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) sum.SumBlock(block);
  });
  sum.AddCarries();
  sum.ClearLastKeys();
}

}  // namespace sok
