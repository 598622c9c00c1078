// SPDX-License-Identifier: Apache-2.0
// A batch of keys cut into bags, each occurrence pointing at its distinct key. No rows.
#ifndef SOK_OPS_LOOKUP_BAGS_H_
#define SOK_OPS_LOOKUP_BAGS_H_

#include <cstdint>
#include <string>

namespace sok {

enum class Combiner {
  kNone,  // every occurrence is an output row of its own
  kSum,
  kMean,  // the sum over the number of keys in the bag
};

struct Bags {
  int64_t num_keys = 0;              // occurrences
  int64_t num_distinct = 0;          // distinct keys
  const int32_t* inverse = nullptr;  // [num_keys], the distinct key of each occurrence
  int64_t num_bags = 0;              // output rows; num_keys where the combiner is kNone
  const int64_t* row_splits =
      nullptr;  // [num_bags + 1], ascending, 0 to num_keys; unused where the combiner is kNone
  Combiner combiner = Combiner::kNone;
  const int64_t* mean_splits =
      nullptr;  // [num_bags + 1], what kMean divides by; nullptr: row_splits. Differs from
                // row_splits where some of the rows are sums of several

  /// What the rows of a bag are multiplied by.
  float Scale(int64_t bag) const {
    if (combiner != Combiner::kMean) return 1.0f;
    const int64_t* splits = mean_splits ? mean_splits : row_splits;
    const int64_t size = splits[bag + 1] - splits[bag];
    return size > 1 ? 1.0f / static_cast<float>(size) : 1.0f;
  }
};

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

#endif  // SOK_OPS_LOOKUP_BAGS_H_
