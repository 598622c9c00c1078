// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/rows/pool_rows.h"

#include <algorithm>
#include <vector>

#include "ops/base/wide_vectors.h"
#include "ops/cpu/rows/bag_factors.h"
#include "ops/cpu/rows/fetch_rows.h"
#include "ops/cpu/rows/fixed_dim.h"
#include "ops/cpu/rows/row_numbers.h"

namespace sok {
namespace {

// Keys; a bag's sum is a sum of block sums, so that a million keys lose no more digits than a
// block.
constexpr int64_t kBlock = 1024;

/// Rough nanoseconds to read and write one row: a cache miss, then bandwidth.
int64_t PoolCost(int64_t dim) { return 8 + dim / 8; }

constexpr int64_t kPointerNanoseconds = 1;

/// The address of a row: of Numbers in a plane or, of an absent key, of floats.
template <typename Number>
class RowPointer {
 public:
  RowPointer() = default;
  RowPointer(const Number* row, const float* absent)
      : address_(absent == nullptr ? row : static_cast<const void*>(absent)),
        is_absent_(absent != nullptr) {}

  /// Calls body(numbers).
  template <typename Body>
  SOK_INLINE void Read(const Body& body) const {
    if (is_absent_) {
      body(static_cast<const float*>(address_));
    } else {
      body(static_cast<const Number*>(address_));
    }
  }
  SOK_INLINE void Prefetch(int64_t dim) const {
    PrefetchRow(static_cast<const Number*>(address_), dim);
  }

 private:
  const void* address_ = nullptr;
  bool is_absent_ = false;
};
template <>
class RowPointer<float> {
 public:
  RowPointer() = default;
  RowPointer(const float* row, const float* absent) : row_(absent == nullptr ? row : absent) {}

  template <typename Body>
  SOK_INLINE void Read(const Body& body) const {
    body(row_);
  }
  SOK_INLINE void Prefetch(int64_t dim) const { PrefetchRow(row_, dim); }

 private:
  const float* row_ = nullptr;
};

/// Of the row of each distinct key.
template <typename Number>
std::vector<RowPointer<Number>> RowPointers(Executor& executor, int64_t num_distinct,
                                            const RowSource& source, const Number* plane) {
  const int64_t dim = source.plane.width;
  std::vector<RowPointer<Number>> pointers(static_cast<size_t>(num_distinct));
  executor.ParallelFor(num_distinct, kPointerNanoseconds, [&](int64_t begin, int64_t end) {
    for (int64_t d = begin; d < end; ++d) {
      const int64_t row_id = source.row_ids == nullptr ? d : source.row_ids[d];
      const float* absent = row_id < 0 ? source.absent_values + d * dim : nullptr;
      pointers[static_cast<size_t>(d)] = {plane + row_id * dim, absent};
    }
  });
  return pointers;
}

template <typename Dim, typename Pointer>
SOK_WIDE_VECTORS void CopyRange(const Bags& bags, Dim dim, const Pointer* rows, int64_t begin,
                                int64_t end, float* out) {
  const int64_t size = dim;
  const int64_t ahead = PrefetchDistance(NumLines(size));
  for (int64_t i = begin; i < end; ++i) {
    if (i + ahead < end) rows[bags.inverse[i + ahead]].Prefetch(size);
    if (i + kOutputAhead < end) PrefetchOutput(out, size, i + kOutputAhead);
    rows[bags.inverse[i]].Read([=](const auto* row)
                                   SOK_ALWAYS_INLINE { LoadRow(row, dim, out + i * size); });
  }
}

template <BagFactors kFactors, bool kIsFirst, typename Dim, typename Number>
SOK_INLINE void AddNumbers(Dim dim, const Number* __restrict row, float weight,
                           float* __restrict sum) {
  const int64_t size = dim;
  if constexpr (kIsFloat16<Number>) {  // widened before, by instructions that only LoadRow has
    constexpr int64_t kAtATime = 128;
    float wide[kAtATime];
    for (int64_t begin = 0; begin < size; begin += kAtATime) {
      const int64_t count = std::min(kAtATime, size - begin);
      LoadRow(row + begin, count, wide);
      AddNumbers<kFactors, kIsFirst>(count, wide, weight, sum + begin);
    }
    return;
  }
  SOK_FOR_COLUMNS
  for (int64_t column = 0; column < size; ++column) {
    const float number = Widened(row[column]);
    const float value = kFactors == BagFactors::kWeighted ? weight * number : number;
    sum[column] = (kIsFirst ? 0.0f : sum[column]) + value;  // -0 + 0 is 0
  }
}

/// Adds the row of a key to sum[0..dim), and its weight to weight_sum; with kIsFirst, the sum is
/// known to be 0.
template <BagFactors kFactors, bool kIsFirst, typename Dim, typename Pointer>
SOK_INLINE void AddRow(const Bags& bags, Dim dim, const Pointer* rows, int64_t key, float* sum,
                       float& weight_sum) {
  float weight = 1.0f;
  if constexpr (kFactors == BagFactors::kWeighted) {
    weight = bags.weights[key];
    weight_sum += weight;
  }
  rows[bags.inverse[key]].Read([=](const auto* row) SOK_ALWAYS_INLINE {
    AddNumbers<kFactors, kIsFirst>(dim, row, weight, sum);
  });
}

/// Adds the rows of keys [begin, end) to sum[0..dim), and their weights to weight_sum.
template <BagFactors kFactors, typename Dim, typename Pointer>
SOK_INLINE void AddRows(const Bags& bags, Dim dim, const Pointer* rows, int64_t begin, int64_t end,
                        int64_t prefetch_end, float* sum, float& weight_sum) {
  const int64_t ahead = PrefetchDistance(NumLines(dim));
  for (int64_t i = begin; i < end; ++i) {
    if (i + ahead < prefetch_end) rows[bags.inverse[i + ahead]].Prefetch(dim);
    AddRow<kFactors, false>(bags, dim, rows, i, sum, weight_sum);
  }
}

/// As AddRows, block by block, for a bag that began with the key before `begin`.
template <BagFactors kFactors, typename Dim, typename Pointer>
SOK_INLINE void AddBlocks(const Bags& bags, Dim dim, const Pointer* rows, int64_t begin,
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

template <BagFactors kFactors, typename Dim, typename Pointer>
SOK_WIDE_VECTORS void PoolRange(const Bags& bags, Dim dim, const Pointer* rows, int64_t begin,
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
      if (first + ahead < last) rows[bags.inverse[first + ahead]].Prefetch(size);
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

void PoolRows(Executor& executor, const Bags& bags, const RowSource& source, float* out) {
  if (bags.num_bags == 0) return;
  if (source.row_ids != nullptr) {
    PlanesToFetch looked_up(source.plane);
    if (source.trained != nullptr) looked_up.Add(*source.trained);
    looked_up.Fetch(bags.num_distinct, source.row_ids, RowUse::kLookUp);
  }
  const int64_t dim = source.plane.width;
  const int64_t keys_per_bag = 1 + bags.num_keys / bags.num_bags;
  WithElement(source.plane, [&](const auto* plane) {
    const auto pointers = RowPointers(executor, bags.num_distinct, source, plane);
    const auto* const rows = pointers.data();
    const auto pool_rows = [&](int64_t begin, int64_t end) {
      WithFixedDim<std::remove_cv_t<std::remove_pointer_t<decltype(plane)>>>(
          dim, [&](auto fixed_dim) {
            if (bags.combiner == Combiner::kNone) {
              CopyRange(bags, fixed_dim, rows, begin, end, out);
              return;
            }
            WithBagFactors(bags, [&](auto factors) {
              PoolRange<factors.value>(bags, fixed_dim, rows, begin, end, out);
            });
          });
    };
    executor.ParallelFor(bags.num_bags, keys_per_bag * PoolCost(dim), pool_rows);
  });
}

}  // namespace sok
