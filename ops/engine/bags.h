// SPDX-License-Identifier: Apache-2.0
// A batch of keys cut into bags; each occurrence refers to its distinct key. No rows.
#pragma once

#include <cstdint>
#include <string>

#include "ops/base/host_device.h"
#include "ops/base/names.h"

namespace sok {

/// Limit of occurrences and of bags in a batch: positions are int32.
constexpr int64_t kMaxBatchKeys = INT32_MAX;

enum class Combiner {
  kNone,  // each occurrence has its own output row
  kSum,
  kMean,  // the sum divided by the number of keys in the bag, or by the sum of their weights
};

constexpr Named<Combiner> kCombiners[] = {
    {"none", Combiner::kNone}, {"sum", Combiner::kSum}, {"mean", Combiner::kMean}};

struct Bags {
  int64_t num_keys = 0;              // occurrences
  int64_t num_distinct = 0;          // distinct keys
  const int32_t* inverse = nullptr;  // [num_keys], the distinct key of each occurrence
  int64_t num_bags = 0;              // output rows; num_keys if the combiner is kNone
  /// [num_bags + 1], ascending, 0 to num_keys; unused if the combiner is kNone.
  const int64_t* row_splits = nullptr;
  Combiner combiner = Combiner::kNone;
  /// [num_keys], factor of each occurrence's row; nullptr: all ones. Not with kNone.
  const float* weights = nullptr;
  /// [num_bags], factor of the sum of each bag in place of the combiner's: for rows some of which
  /// are already sums of several. nullptr: MeanFactor or, with kSum, 1.
  const float* factors = nullptr;
};

/// The factor of the sum of a bag of `size` keys under kMean.
SOK_HOST_DEVICE inline float MeanFactor(int64_t size) {
  return size > 1 ? 1.0f / static_cast<float>(size) : 1.0f;
}
/// The same with weights, as in tf.nn.embedding_lookup_sparse: weights that add up to 0 give zeros.
SOK_HOST_DEVICE inline float MeanFactor(float weight_sum) {
  return weight_sum == 0.0f ? 0.0f : 1.0f / weight_sum;
}

/// The factor of a bag's sum; `weight_sum` is the sum of the bag's weights, if it has any.
SOK_HOST_DEVICE inline float BagFactor(const Bags& bags, int64_t bag, float weight_sum) {
  if (bags.factors != nullptr) return bags.factors[bag];
  if (bags.combiner != Combiner::kMean) return 1.0f;
  if (bags.weights != nullptr) return MeanFactor(weight_sum);
  return MeanFactor(bags.row_splits[bag + 1] - bags.row_splits[bag]);
}
/// Whether any factor differs from 1.
SOK_HOST_DEVICE inline bool HasFactors(const Bags& bags) {
  return bags.factors != nullptr || bags.combiner == Combiner::kMean;
}
/// Whether factors depend on sums of weights.
SOK_HOST_DEVICE inline bool HasWeightedMean(const Bags& bags) {
  return bags.weights != nullptr && bags.factors == nullptr && bags.combiner == Combiner::kMean;
}

/// Throws kInvalidArgument for more than `most_keys`, the engine's limit.
void CheckBatchSize(int64_t num_keys, int64_t most_keys);

/// Throws kInvalidArgument, naming `what`, for inconsistent lengths.
void CheckLengths(const Bags& bags, const char* what);

/// Whether output i is the row of distinct key i for all i.
bool IsOneToOneInOrder(const Bags& bags);

/// The row splits of a sparse matrix whose entries are in row order. Throws kInvalidArgument,
/// naming `layer_name`, for a row index outside [0, num_bags), for descending indices, and for a
/// row with more than `max_keys_per_bag` keys.
void RowSplitsFromIndices(const std::string& layer_name, int64_t num_keys,
                          const int64_t* indices,  // [num_keys, 2], (row, column)
                          int64_t num_bags, int64_t max_keys_per_bag,
                          int64_t* row_splits);  // [num_bags + 1]

}  // namespace sok
