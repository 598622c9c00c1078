// SPDX-License-Identifier: Apache-2.0
// Forward: pools the rows of distinct keys into the output of each bag. No table.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/device/memory/count.h"
#include "ops/device/memory/float_pack.h"
#include "ops/engine/engine.h"

namespace sok {

/// RowSource on a device, with a plane of Numbers.
template <typename Number>
struct PooledRows {
  RowSource source;

  SOK_HOST_DEVICE int64_t dim() const { return source.plane.width; }
  template <typename Pack>
  SOK_HOST_DEVICE Pack Load(int64_t d, int64_t column) const {
    const int64_t row_id = source.row_ids != nullptr ? source.row_ids[d] : d;
    const auto* plane = source.plane.template As<const Number>();
    const float* absent = source.absent_values;
    if constexpr (sizeof(Number) == sizeof(float)) {  // one load
      return LoadPack<Pack>((row_id >= 0 ? plane + row_id * dim() : absent + d * dim()) + column);
    } else {
      return row_id >= 0 ? LoadPack<Pack>(plane + row_id * dim() + column)
                         : LoadPack<Pack>(absent + d * dim() + column);
    }
  }
};

/// Output i is the row of inverse[i].
template <typename Pack, typename Number>
struct CopyRowsOfKeys {
  PackGrid<Pack> grid;
  PooledRows<Number> rows;
  const int32_t* inverse;
  float* out;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    StreamPack(out + place.row * rows.dim() + place.column,
               rows.template Load<Pack>(inverse[place.row], place.column));
  }
};

/// One pack of the output of one bag.
template <typename Pack, typename Number>
struct PoolBags {
  // Rows loaded before the first is added, to have several loads in flight.
  static constexpr int64_t kAhead = 4;
  // Keys; a bag's sum is a sum of block sums, as on the CPU, so that long bags lose no digits.
  static constexpr int64_t kBlock = 1024;

  PackGrid<Pack> grid;
  PooledRows<Number> rows;
  Bags bags;
  float* out;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    const int64_t end = bags.row_splits[place.row + 1];
    int64_t begin = bags.row_splits[place.row];
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
    const float factor = BagFactor(bags, place.row, weight_sum);
    SOK_UNROLL
    for (int c = 0; c < Pack::width; ++c) sum.at[c] *= factor;
    StreamPack(out + place.row * rows.dim() + place.column, sum);
  }

  SOK_HOST_DEVICE Pack SumBlock(int64_t begin, int64_t end, int64_t column,
                                float& weight_sum) const {
    Pack sum = ZeroPack<Pack>();
    for (; begin + kAhead <= end; begin += kAhead) {
      Pack packs[kAhead];
      SOK_UNROLL
      for (int64_t k = 0; k < kAhead; ++k) packs[k] = PackOf(begin + k, column);
      SOK_UNROLL
      for (int64_t k = 0; k < kAhead; ++k) Add(begin + k, packs[k], sum, weight_sum);
    }
    for (; begin < end; ++begin) Add(begin, PackOf(begin, column), sum, weight_sum);
    return sum;
  }

  SOK_HOST_DEVICE Pack PackOf(int64_t key, int64_t column) const {
    return rows.template Load<Pack>(bags.inverse[key], column);
  }

  SOK_HOST_DEVICE void Add(int64_t key, Pack pack, Pack& sum, float& weight_sum) const {
    if (bags.weights != nullptr) {
      const float weight = bags.weights[key];
      weight_sum += weight;
      SOK_UNROLL
      for (int c = 0; c < Pack::width; ++c) pack.at[c] *= weight;
    }
    AddPack(sum, pack);
  }
};

/// As Engine::PoolRows, on a queue: the CPU's additions in the same order. Ignores
/// Bags::num_distinct.
template <typename Queue>
void PoolRows(Queue& queue, const Bags& bags, const RowSource& source,
              float* out) {  // [num_bags, dim]
  const int64_t dim = source.plane.width;
  WithElement(source.plane, [&](auto* plane) {
    using Number = std::remove_pointer_t<decltype(plane)>;
    WithPack(dim, {plane, source.absent_values, out}, [&](auto pack) {
      using Pack = decltype(pack);
      const PackGrid<Pack> grid(dim);
      const PooledRows<Number> rows{source};
      const int64_t num_packs = bags.num_bags * grid.packs_per_row();
      if (bags.combiner == Combiner::kNone) {
        queue.ForEach(num_packs, CopyRowsOfKeys<Pack, Number>{grid, rows, bags.inverse, out});
      } else {
        queue.ForEach(num_packs, PoolBags<Pack, Number>{grid, rows, bags, out});
      }
    });
  });
}

}  // namespace sok
