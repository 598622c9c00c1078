// SPDX-License-Identifier: Apache-2.0
// Tensors to Bags, for ops of both directions.
#pragma once

#include <vector>

#include "ops/engine/bags.h"
#include "ops/tf/base/engine_of_op.h"

namespace sok {

/// The attribute `combiners`: 'none', 'sum' or 'mean' for each item of a group.
std::vector<Combiner> CombinersOf(tf::OpKernelConstruction* ctx);

/// Tensors that describe the bags of one item. For optional ones, length 0 means "none" if there
/// are bags.
struct BagTensors {
  Combiner combiner;
  int64_t num_distinct;
  const tf::Tensor& inverse;            // [num_keys]
  const tf::Tensor& row_splits;         // [num_bags + 1]; not read with kNone
  const tf::Tensor* weights = nullptr;  // [num_keys]
  const tf::Tensor* factors = nullptr;  // [num_bags]
};

/// The bags, whose tensors are on the device of `call`, checked by Engine::CheckBags. `what` names
/// them in messages.
Bags CheckedBags(OpCall& call, const BagTensors& tensors, const char* what);

}  // namespace sok
