// SPDX-License-Identifier: Apache-2.0
// Batches of bags for tests, and the factor of each occurrence in double precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "ops/tests/conformance/engine_fixture.h"

namespace sok::testing {

inline Floats Random(int64_t count, uint64_t seed, float low = -1.0f) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(low, 1.0f);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

inline void CheckNear(const Floats& actual, const std::vector<double>& expected,
                      double tolerance = 1e-5) {
  CHECK_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    if (!(error <= tolerance * (1.0 + std::abs(expected[i])))) {
      CHECK_EQ(static_cast<double>(actual[i]), expected[i]);
    }
  }
}

struct BatchOptions {
  int64_t num_bags = 1;
  int64_t max_keys = 1;  // per bag
  int64_t num_distinct = 1;
  double hot_share = 0.3;  // share of one key in all occurrences
  Combiner combiner = Combiner::kSum;
  bool has_weights = false;
  bool has_factors = false;
};

/// Bags on the host.
struct RandomBatch {
  explicit RandomBatch(const BatchOptions& options) {
    std::mt19937_64 random(static_cast<uint64_t>(options.num_bags + options.num_distinct));
    for (int64_t bag = 0; bag < options.num_bags; ++bag) {
      const auto most = static_cast<uint64_t>(options.max_keys);
      const uint64_t num_keys = options.combiner == Combiner::kNone ? 1 : random() % (most + 1);
      row_splits.push_back(row_splits.back() + static_cast<int64_t>(num_keys));
    }
    std::uniform_real_distribution<double> share;
    for (int64_t i = 0; i < row_splits.back(); ++i) {
      const bool is_hot = share(random) < options.hot_share;
      const auto other = random() % static_cast<uint64_t>(options.num_distinct);
      inverse.push_back(is_hot ? 0 : static_cast<int32_t>(other));
    }
    weights = Random(row_splits.back(), 9, 0.1f);
    factors = Random(options.num_bags, 10);
    // A bag whose weights add up to 0.
    for (int64_t i = 0; i < (options.num_bags > 2 ? row_splits[2] : 0); ++i) weights[i] = 0.0f;
    bags.num_keys = row_splits.back();
    bags.num_distinct = options.num_distinct;
    bags.inverse = inverse.data();
    bags.num_bags = options.num_bags;
    bags.row_splits = row_splits.data();
    bags.combiner = options.combiner;
    if (options.has_weights) bags.weights = weights.data();
    if (options.has_factors) bags.factors = factors.data();
  }

  /// Calls visit(occurrence, bag, factor of its row).
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (int64_t bag = 0; bag < bags.num_bags; ++bag) {
      for (int64_t i = row_splits[bag]; i < row_splits[bag + 1]; ++i) {
        visit(i, bag, FactorOf(bag) * (bags.weights ? weights[i] : 1.0));
      }
    }
  }

  Ids row_splits = {0};
  Numbers inverse;
  Floats weights;
  Floats factors;
  Bags bags;

 private:
  double FactorOf(int64_t bag) const {
    if (bags.factors != nullptr) return factors[static_cast<size_t>(bag)];
    if (bags.combiner != Combiner::kMean) return 1.0;
    double sum = 0.0;
    for (int64_t i = row_splits[bag]; i < row_splits[bag + 1]; ++i) {
      sum += bags.weights ? weights[i] : 1.0;
    }
    return sum == 0.0 ? 0.0 : 1.0 / sum;
  }
};

/// The same bags in an engine's memory.
inline Bags Uploaded(CallWithArrays& arrays, const RandomBatch& batch) {
  Bags bags = batch.bags;
  bags.inverse = arrays.Upload(batch.inverse);
  bags.row_splits = arrays.Upload(batch.row_splits);
  if (bags.weights != nullptr) bags.weights = arrays.Upload(batch.weights);
  if (bags.factors != nullptr) bags.factors = arrays.Upload(batch.factors);
  return bags;
}

/// Calls check(batch, dim) for all kinds of batches: short and long bags, weights and factors, dims
/// with and without specialized loops, hot keys.
template <typename Check>
void ForAllBatches(const Check& check) {
  for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean}) {
    for (const bool has_weights : {false, true}) {
      for (const bool has_factors : {false, true}) {
        if (combiner == Combiner::kNone && (has_weights || has_factors)) continue;
        const auto check_one = [&](int64_t num_bags, int64_t max_keys, int64_t num_distinct,
                                   double hot_share, int64_t dim) {
          check(RandomBatch({num_bags, max_keys, num_distinct, hot_share, combiner, has_weights,
                             has_factors}),
                dim);
        };
        for (const int64_t dim : {1, 4, 6}) {
          check_one(300, 5, 200, 0.3, dim);
          check_one(2, 3000, 50, 0.3, dim);
          check_one(1, 1, 2, 1.0, dim);
          check_one(0, 7, 3, 0.0, dim);
        }
        check_one(200, 7, 50, 0.3, 16);
        check_one(200, 7, 50, 0.3, 128);
      }
    }
  }
}

}  // namespace sok::testing
