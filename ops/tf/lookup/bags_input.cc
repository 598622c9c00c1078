// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup/bags_input.h"

#include "ops/tf/base/group.h"

namespace sok {

namespace {

/// The `count` values of an optional input; absent if its length is 0.
const float* Optional(const tf::Tensor* values, int64_t count, const char* name, const char* what) {
  if (values == nullptr || values->NumElements() == 0) return nullptr;
  if (values->NumElements() != count) {
    Throw(ErrorCode::kInvalidArgument, what, ": ", name, " must have ", count, " values, got ",
          values->NumElements());
  }
  return Data<float>(*values);
}

}  // namespace

std::vector<Combiner> CombinersOf(tf::OpKernelConstruction* ctx) {
  std::vector<Combiner> combiners;
  for (const std::string& name : ItemAttributes<std::string>(ctx, "combiners")) {
    combiners.push_back(ItemNamed(kCombiners, "combiner", name).value);
  }
  return combiners;
}

Bags CheckedBags(OpCall& call, const BagTensors& tensors, const char* what) {
  Bags bags;
  bags.combiner = tensors.combiner;
  bags.num_keys = tensors.inverse.NumElements();
  bags.num_distinct = tensors.num_distinct;
  bags.inverse = Data<int32_t>(tensors.inverse);
  if (bags.combiner == Combiner::kNone) {
    bags.num_bags = bags.num_keys;
  } else {
    if (tensors.row_splits.NumElements() == 0) {
      Throw(ErrorCode::kInvalidArgument, what, ": row_splits must have at least one value");
    }
    bags.num_bags = tensors.row_splits.NumElements() - 1;
    bags.row_splits = Data<int64_t>(tensors.row_splits);
    bags.weights = Optional(tensors.weights, bags.num_keys, "weights", what);
    bags.factors = Optional(tensors.factors, bags.num_bags, "factors", what);
  }
  call.engine().CheckBags(call, bags, what);
  return bags;
}

}  // namespace sok
