// SPDX-License-Identifier: Apache-2.0
// Backward: merges the gradients of bags into one gradient per distinct key. No table.
//
// No atomic additions of floats: occurrences are sorted by distinct key (stable, so in batch order)
// and cut into runs of equal length, regardless of keys; each run adds up its occurrences by key.
// The first key of a run may have begun in an earlier one; its part is carried, and the carries are
// merged in the same way, until one run holds all. Many threads thus share a key with a million
// occurrences, and the same input gives the same bits.
#pragma once

#include <cstdint>

#include "ops/device/memory/count.h"
#include "ops/device/memory/float_pack.h"
#include "ops/device/memory/scratch.h"
#include "ops/engine/bags.h"

namespace sok {

/// Summands per thread.
constexpr int64_t kRun = 32;

/// Key of a run that carries nothing; no distinct key has this number.
constexpr uint32_t kNoCarry = UINT32_MAX;

/// Finds the bag of each occurrence by binary search in the row splits.
struct FindBag {
  const int64_t* row_splits;
  int64_t num_bags;
  int32_t* bag_of;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    int64_t low = 0;
    int64_t high = num_bags;  // the bag is in [low, high)
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (row_splits[middle] <= i) {
        low = middle;
      } else {
        high = middle;
      }
    }
    bag_of[i] = static_cast<int32_t>(low);
  }
};

struct NumberOccurrences {
  int32_t* numbers;

  SOK_HOST_DEVICE void operator()(int64_t i) const { numbers[i] = static_cast<int32_t>(i); }
};

/// The gradients of occurrences, in sorted order.
template <typename Pack>
struct OccurrenceGradients {
  Bags bags;
  const int32_t* bag_of;
  const int32_t* positions;  // in the batch, for the weights; nullptr without weights
  const float* gradients;
  const float* weight_sums;  // [num_bags], for a weighted mean; or nullptr
  int64_t dim;

  SOK_HOST_DEVICE Pack Load(int64_t i, int64_t column) const {
    const int64_t position = positions != nullptr ? positions[i] : i;
    const int64_t bag = bag_of[position];
    Pack pack = LoadPack<Pack>(gradients + bag * dim + column);
    if (HasFactors(bags) || bags.weights != nullptr) {
      float factor = BagFactor(bags, bag, weight_sums != nullptr ? weight_sums[bag] : 0.0f);
      if (bags.weights != nullptr) factor *= bags.weights[position];
      SOK_UNROLL
      for (int c = 0; c < Pack::width; ++c) pack.at[c] *= factor;
    }
    return pack;
  }
};

/// Rows of carries, as summands.
template <typename Pack>
struct Carries {
  const float* rows;
  int64_t dim;

  SOK_HOST_DEVICE Pack Load(int64_t i, int64_t column) const {
    return LoadPack<Pack>(rows + i * dim + column);
  }
};

/// Item i is one pack of one run: adds up kRun summands by key.
template <typename Pack, typename Source, bool kIsFirstLevel>
struct SumRun {
  static constexpr int kAhead = 4;  // summands loaded before the first is added

  PackGrid<Pack> grid;
  int64_t dim;
  int64_t num_summands;
  const uint32_t* keys;  // [num_summands], equal ones adjacent
  Source source;
  float* merged;         // [num_distinct, dim]
  uint32_t* carry_keys;  // [number of runs]
  float* carries;        // [number of runs, dim]

  SOK_HOST_DEVICE void operator()(int64_t item) const {
    const auto place = grid.At(item);
    const int64_t begin = place.row * kRun;
    const int64_t end = begin + kRun < num_summands ? begin + kRun : num_summands;
    const uint32_t first_key = keys[begin];
    bool is_carry = begin > 0 && keys[begin - 1] == first_key && first_key != kNoCarry;
    if (place.column == 0) carry_keys[place.row] = is_carry ? first_key : kNoCarry;
    Pack sum = ZeroPack<Pack>();
    for (int64_t i = begin; i < end; i += kAhead) {
      uint32_t key[kAhead + 1];
      Pack summands[kAhead];
      SOK_UNROLL
      for (int k = 0; k <= kAhead; ++k) key[k] = i + k < end ? keys[i + k] : kNoCarry;
      SOK_UNROLL
      for (int k = 0; k < kAhead; ++k) {
        summands[k] = key[k] != kNoCarry ? source.Load(i + k, place.column) : ZeroPack<Pack>();
      }
      SOK_UNROLL
      for (int k = 0; k < kAhead; ++k) {
        if (key[k] == kNoCarry) continue;
        AddPack(sum, summands[k]);
        if (key[k + 1] == key[k]) continue;
        Put(is_carry ? carries + place.row * dim : merged + key[k] * dim, is_carry, place.column,
            sum);
        is_carry = false;
        sum = ZeroPack<Pack>();
      }
    }
  }

  SOK_HOST_DEVICE void Put(float* row, bool is_carry, int64_t column, Pack sum) const {
    if (!kIsFirstLevel && !is_carry) {
      // The result of the first level comes first.
      Pack total = LoadPack<Pack>(row + column);
      AddPack(total, sum);
      sum = total;
    }
    StorePack(row + column, sum);
  }
};

/// Sums the weights of each bag, in their order.
struct SumWeights {
  const float* weights;
  const int64_t* row_splits;
  float* sums;

  SOK_HOST_DEVICE void operator()(int64_t bag) const {
    // The same blocks as in PoolBags, so that the sums have the same bits.
    float sum = 0.0f;
    for (int64_t i = row_splits[bag]; i < row_splits[bag + 1]; ++i) sum += weights[i];
    sums[bag] = sum;
  }
};

/// Adds up summands by key, level by level. Each level is launched for a number of runs known to
/// the host.
template <typename Pack, bool kIsFirstLevel, typename Queue, typename Source>
void SumByKey(Queue& queue, Scratch<Queue>& scratch, int64_t num_summands, int64_t dim,
              const uint32_t* keys, const Source& source, float* merged) {
  const int64_t num_runs = (num_summands + kRun - 1) / kRun;
  auto* carry_keys = scratch.template Take<uint32_t>(num_runs);
  auto* carries = scratch.template Take<float>(num_runs * dim);
  const PackGrid<Pack> grid(dim);
  queue.ForEach(num_runs * grid.packs_per_row(),
                SumRun<Pack, Source, kIsFirstLevel>{grid, dim, num_summands, keys, source, merged,
                                                    carry_keys, carries});
  if (num_runs > 1) {
    SumByKey<Pack, false>(queue, scratch, num_runs, dim, carry_keys, Carries<Pack>{carries, dim},
                          merged);
  }
}

inline int BitsFor(int64_t num_values) {
  int bits = 1;
  while ((int64_t{1} << bits) < num_values) ++bits;
  return bits;
}

/// As Engine::MergeGradients, on a queue.
template <typename Queue>
void MergeGradients(Queue& queue, Scratch<Queue>& scratch, const Bags& bags, int64_t dim,
                    const float* gradients,  // [num_bags, dim]
                    float* merged) {         // [num_distinct, dim]
  queue.FillBytes(merged, 0, bags.num_distinct * dim * static_cast<int64_t>(sizeof(float)));
  if (bags.num_keys == 0) return;
  typename Scratch<Queue>::Frame frame(scratch);
  auto* bag_of = scratch.template Take<int32_t>(bags.num_keys);
  if (bags.combiner == Combiner::kNone) {
    queue.ForEach(bags.num_keys, NumberOccurrences{bag_of});
  } else {
    queue.ForEach(bags.num_keys, FindBag{bags.row_splits, bags.num_bags, bag_of});
  }
  // With weights, the sort carries positions, which give bag and weight; without, it carries bags,
  // which saves a read.
  const int32_t* sorted_bags = bag_of;
  const int32_t* sorted_positions = nullptr;
  const float* weight_sums = nullptr;
  auto* keys = scratch.template Take<uint32_t>(bags.num_keys);
  auto* sorted = scratch.template Take<int32_t>(bags.num_keys);
  const auto* unsorted_keys = reinterpret_cast<const uint32_t*>(bags.inverse);
  const int num_bits = BitsFor(bags.num_distinct);
  if (bags.weights == nullptr) {
    queue.StableSort(bags.num_keys, num_bits, unsorted_keys, bag_of, keys, sorted);
    sorted_bags = sorted;
  } else {
    auto* positions = scratch.template Take<int32_t>(bags.num_keys);
    queue.ForEach(bags.num_keys, NumberOccurrences{positions});
    queue.StableSort(bags.num_keys, num_bits, unsorted_keys, positions, keys, sorted);
    sorted_positions = sorted;
    if (HasWeightedMean(bags)) {
      auto* sums = scratch.template Take<float>(bags.num_bags);
      queue.ForEach(bags.num_bags, SumWeights{bags.weights, bags.row_splits, sums});
      weight_sums = sums;
    }
  }
  WithPack(dim, {gradients, merged}, [&](auto pack) {
    using Pack = decltype(pack);
    SumByKey<Pack, true>(
        queue, scratch, bags.num_keys, dim, keys,
        OccurrenceGradients<Pack>{bags, sorted_bags, sorted_positions, gradients, weight_sums, dim},
        merged);
  });
}

}  // namespace sok
