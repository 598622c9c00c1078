// SPDX-License-Identifier: Apache-2.0
// Tensors to Bags, for the ops of both directions.
#ifndef SOK_OPS_TF_BAGS_INPUT_H_
#define SOK_OPS_TF_BAGS_INPUT_H_

#include <string>

#include "ops/lookup/bags.h"
#include "tensorflow/core/framework/tensor.h"

namespace sok {

/// `name` is one of the values that the ops' attribute allows.
Combiner ParseCombiner(const std::string& name);

/// The bags that `inverse` [num_keys] and `row_splits` [num_bags + 1] describe; row_splits is not
/// read where the combiner is kNone. `mean_splits`: see Bags.
Bags BagsFromInputs(Combiner combiner, int64_t num_distinct, const tensorflow::Tensor& inverse,
                    const tensorflow::Tensor& row_splits,
                    const tensorflow::Tensor* mean_splits = nullptr);

/// As above, for tensors on a GPU: what they hold is not looked at.
Bags BagsOnDevice(Combiner combiner, int64_t num_distinct, const tensorflow::Tensor& inverse,
                  const tensorflow::Tensor& row_splits,
                  const tensorflow::Tensor* mean_splits = nullptr);

}  // namespace sok

#endif  // SOK_OPS_TF_BAGS_INPUT_H_
