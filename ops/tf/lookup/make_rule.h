// SPDX-License-Identifier: Apache-2.0
// An optimizer's rule from the attributes and inputs of an op.
#ifndef SOK_OPS_TF_LOOKUP_MAKE_RULE_H_
#define SOK_OPS_TF_LOOKUP_MAKE_RULE_H_

#include <string>
#include <vector>

#include "ops/engine/rules.h"

namespace sok {

/// The rule called `name` with these hyperparameters, in the order of its fields. Throws
/// kInvalidArgument if their number is wrong, or TensorFlow's ops reject one.
Rule MakeRule(const std::string& name, bool use_nesterov, const std::vector<float>& values);

}  // namespace sok

#endif  // SOK_OPS_TF_LOOKUP_MAKE_RULE_H_
