// SPDX-License-Identifier: Apache-2.0
// A batch of keys cut into bags, each occurrence pointing at its distinct key. No rows.
#ifndef SOK_OPS_ENGINE_BAGS_H_
#define SOK_OPS_ENGINE_BAGS_H_

#include <cstdint>
#include <string>

#include "ops/base/host_device.h"

namespace sok {

/// Most occurrences, and most bags, of a batch: positions are int32.
constexpr int64_t kMaxBatchKeys = INT32_MAX;

enum class Combiner {
  kNone,  // every occurrence is an output row of its own
  kSum,
  kMean,  // the sum over the number of keys in the bag, or over the sum of their weights
};

struct Bags {
  int64_t num_keys = 0;              // occurrences
  int64_t num_distinct = 0;          // distinct keys
  const int32_t* inverse = nullptr;  // [num_keys], the distinct key of each occurrence
  int64_t num_bags = 0;              // output rows; num_keys where the combiner is kNone
  /// [num_bags + 1], ascending, 0 to num_keys; unused where the combiner is kNone.
  const int64_t* row_splits = nullptr;
  Combiner combiner = Combiner::kNone;
  /// [num_keys], what each occurrence's row is multiplied by; nullptr: all ones. Not with kNone.
  const float* weights = nullptr;
  /// [num_bags], what the sum of each bag is multiplied by, in the place of what the combiner says:
  /// where some of the rows are sums of several. nullptr: MeanFactor or, with kSum, 1.
  const float* factors = nullptr;
};

/// What kMean multiplies the sum of a bag of `size` keys by.
SOK_HOST_DEVICE inline float MeanFactor(int64_t size) {
  return size > 1 ? 1.0f / static_cast<float>(size) : 1.0f;
}
/// The same with weights, as tf.nn.embedding_lookup_sparse: weights that add up to 0 give zeros.
SOK_HOST_DEVICE inline float MeanFactor(float weight_sum) {
  return weight_sum == 0.0f ? 0.0f : 1.0f / weight_sum;
}

/// What the sum of a bag is multiplied by; `weight_sum` is that of its weights, where it has any.
SOK_HOST_DEVICE inline float BagFactor(const Bags& bags, int64_t bag, float weight_sum) {
  if (bags.factors != nullptr) return bags.factors[bag];
  if (bags.combiner != Combiner::kMean) return 1.0f;
  if (bags.weights != nullptr) return MeanFactor(weight_sum);
  return MeanFactor(bags.row_splits[bag + 1] - bags.row_splits[bag]);
}
/// Whether any of these factors differs from 1.
SOK_HOST_DEVICE inline bool HasFactors(const Bags& bags) {
  return bags.factors != nullptr || bags.combiner == Combiner::kMean;
}
/// Whether they depend on the sums of weights.
SOK_HOST_DEVICE inline bool HasWeightedMean(const Bags& bags) {
  return bags.weights != nullptr && bags.factors == nullptr && bags.combiner == Combiner::kMean;
}

/// Throws kInvalidArgument for more than `most_keys`, an engine's limit.
void CheckBatchSize(int64_t num_keys, int64_t most_keys);

/// Throws kInvalidArgument, naming `what`, for lengths that no batch has.
void CheckLengths(const Bags& bags, const char* what);

/// Whether output i is the row of distinct key i, for all i.
bool IsOneToOneInOrder(const Bags& bags);

/// The row splits of a sparse matrix whose entries stand in row order. Throws kInvalidArgument,
/// naming `layer_name`, for a row index outside [0, num_bags), for indices that descend, and for a
/// row with more than `max_keys_per_bag`.
void RowSplitsFromIndices(const std::string& layer_name, int64_t num_keys,
                          const int64_t* indices,  // [num_keys, 2], (row, column)
                          int64_t num_bags, int64_t max_keys_per_bag,
                          int64_t* row_splits);  // [num_bags + 1]

}  // namespace sok

#endif  // SOK_OPS_ENGINE_BAGS_H_
