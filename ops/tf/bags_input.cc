// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/bags_input.h"

#include <algorithm>

#include "ops/tf/border.h"

namespace sok {

Combiner ParseCombiner(const std::string& name) {
  if (name == "sum") return Combiner::kSum;
  if (name == "mean") return Combiner::kMean;
  return Combiner::kNone;
}

Bags BagsOnDevice(Combiner combiner, int64_t num_distinct, const tensorflow::Tensor& inverse,
                  const tensorflow::Tensor& row_splits, const tensorflow::Tensor* mean_splits) {
  Bags bags;
  bags.combiner = combiner;
  bags.num_keys = inverse.NumElements();
  bags.num_distinct = num_distinct;
  bags.inverse = Data<int32_t>(inverse);
  if (combiner == Combiner::kNone) {
    bags.num_bags = bags.num_keys;
    return bags;
  }
  bags.num_bags = std::max<int64_t>(0, row_splits.NumElements() - 1);
  bags.row_splits = Data<int64_t>(row_splits);
  if (mean_splits) {
    if (mean_splits->NumElements() != row_splits.NumElements()) {
      Throw(ErrorCode::kInvalidArgument, "mean_splits must have the length of row_splits, ",
            row_splits.NumElements(), ", got ", mean_splits->NumElements());
    }
    bags.mean_splits = Data<int64_t>(*mean_splits);
  }
  return bags;
}

Bags BagsFromInputs(Combiner combiner, int64_t num_distinct, const tensorflow::Tensor& inverse,
                    const tensorflow::Tensor& row_splits, const tensorflow::Tensor* mean_splits) {
  const Bags bags = BagsOnDevice(combiner, num_distinct, inverse, row_splits, mean_splits);
  if (combiner != Combiner::kNone &&
      (row_splits.NumElements() == 0 || bags.row_splits[bags.num_bags] != bags.num_keys)) {
    Throw(ErrorCode::kInvalidArgument, "row_splits must end at the number of keys, ", bags.num_keys,
          "; the values and the indices of a SparseTensor must have the same length");
  }
  return bags;
}

}  // namespace sok
