// SPDX-License-Identifier: Apache-2.0
// Forward: the rows of distinct keys to the output of each bag. No table.
#ifndef SOK_OPS_DEVICE_POOLING_H_
#define SOK_OPS_DEVICE_POOLING_H_

#include <cstdint>

#include "ops/device/count.h"
#include "ops/device/float_pack.h"
#include "ops/lookup/bags.h"

namespace sok {

/// What bags pool: the row of distinct key d.
struct RowSource {
  const float* plane;          // [rows, dim]
  const int64_t* row_ids;      // [num_distinct]
  const float* absent_values;  // [num_distinct, dim], for row ids below 0; nullptr: there are none
  int64_t dim;

  SOK_HOST_DEVICE const float* Row(int64_t d) const {
    const int64_t row_id = row_ids[d];
    return row_id >= 0 ? plane + row_id * dim : absent_values + d * dim;
  }
};

/// One weight for each key of a bag; the sum, or the weighted mean.
struct KeyWeights {
  const float* weights = nullptr;  // [num_keys], or nullptr: all ones
};

/// What a bag's sum is multiplied by, as Bags::Scale; with weights the mean divides by their sum.
struct BagScale {
  Combiner combiner;
  const int64_t* splits;  // those of the mean
  KeyWeights weights;

  SOK_HOST_DEVICE float Of(int64_t bag, float weight_sum) const {
    if (combiner != Combiner::kMean) return 1.0f;
    if (weights.weights != nullptr) return weight_sum == 0.0f ? 1.0f : 1.0f / weight_sum;
    const int64_t size = splits[bag + 1] - splits[bag];
    return size > 1 ? 1.0f / static_cast<float>(size) : 1.0f;
  }
};

/// Output i is the row of inverse[i].
template <typename Pack>
struct CopyRowsOfKeys {
  PackGrid<Pack> grid;
  RowSource source;
  const int32_t* inverse;
  float* out;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    StreamPack(out + place.row * source.dim + place.column,
               LoadPack<Pack>(source.Row(inverse[place.row]) + place.column));
  }
};

/// One pack of the output of one bag.
template <typename Pack>
struct PoolBags {
  // Rows that are asked for before the first is added: more are on their way at the same time.
  static constexpr int64_t kAhead = 4;
  // Keys; a bag's sum is a sum of block sums, as on the CPU, so that long bags lose no digits.
  static constexpr int64_t kBlock = 1024;

  PackGrid<Pack> grid;
  RowSource source;
  const int32_t* inverse;
  const int64_t* row_splits;
  KeyWeights weights;
  BagScale scale;
  float* out;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    const int64_t end = row_splits[place.row + 1];
    int64_t begin = row_splits[place.row];
    float weight_sum = 0.0f;
    Pack sum = ZeroPack<Pack>();
    for (bool is_first = true; begin < end; begin += kBlock, is_first = false) {
      const int64_t block_end = begin + kBlock < end ? begin + kBlock : end;
      const Pack block_sum = SumBlock(begin, block_end, place.column, weight_sum);
      if (is_first) {
        sum = block_sum;
      } else {
        AddPack(sum, block_sum);
      }
    }
    const float factor = scale.Of(place.row, weight_sum);
    SOK_UNROLL
    for (int c = 0; c < Pack::width; ++c) sum.at[c] *= factor;
    StreamPack(out + place.row * source.dim + place.column, sum);
  }

  SOK_HOST_DEVICE Pack SumBlock(int64_t begin, int64_t end, int64_t column,
                                float& weight_sum) const {
    Pack sum = ZeroPack<Pack>();
    for (; begin + kAhead <= end; begin += kAhead) {
      Pack rows[kAhead];
      SOK_UNROLL
      for (int64_t k = 0; k < kAhead; ++k) rows[k] = Row(begin + k, column);
      SOK_UNROLL
      for (int64_t k = 0; k < kAhead; ++k) Add(begin + k, rows[k], sum, weight_sum);
    }
    for (; begin < end; ++begin) Add(begin, Row(begin, column), sum, weight_sum);
    return sum;
  }

  SOK_HOST_DEVICE Pack Row(int64_t key, int64_t column) const {
    return LoadPack<Pack>(source.Row(inverse[key]) + column);
  }

  SOK_HOST_DEVICE void Add(int64_t key, Pack row, Pack& sum, float& weight_sum) const {
    if (weights.weights != nullptr) {
      const float weight = weights.weights[key];
      weight_sum += weight;
      SOK_UNROLL
      for (int c = 0; c < Pack::width; ++c) row.at[c] *= weight;
    }
    AddPack(sum, row);
  }
};

/// As PoolRows of ops/lookup, on a queue: the same additions in the same order. All arrays of
/// `bags` are on the device; Bags::num_distinct is not used. With weights (kSum, kMean only) each
/// row is multiplied by its key's weight, and kMean divides by the sum of the bag's weights, unless
/// that is 0.
template <typename Queue>
void PoolRows(Queue& queue, const Bags& bags, const RowSource& source, KeyWeights weights,
              float* out) {  // [num_bags, dim]
  WithPack(source.dim, {source.plane, source.absent_values, out}, [&](auto pack) {
    using Pack = decltype(pack);
    const PackGrid<Pack> grid(source.dim);
    const int64_t num_packs = bags.num_bags * grid.packs_per_row();
    if (bags.combiner == Combiner::kNone) {
      queue.ForEach(num_packs, CopyRowsOfKeys<Pack>{grid, source, bags.inverse, out});
      return;
    }
    const int64_t* mean_splits = bags.mean_splits ? bags.mean_splits : bags.row_splits;
    queue.ForEach(num_packs, PoolBags<Pack>{grid,
                                            source,
                                            bags.inverse,
                                            bags.row_splits,
                                            weights,
                                            {bags.combiner, mean_splits, weights},
                                            out});
  });
}

}  // namespace sok

#endif  // SOK_OPS_DEVICE_POOLING_H_
