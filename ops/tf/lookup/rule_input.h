// SPDX-License-Identifier: Apache-2.0
// An optimizer's rule from the attributes and inputs of an op.
#pragma once

#include <string>

#include "ops/engine/named_rules.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// The attribute `rule`, which lists all names.
std::string RuleAttribute();

/// The rule of an op with this attribute, the inputs `hyperparameters` and the attributes
/// `num_hyperparameters` and `hyperparameter_names`.
class RuleInput {
 public:
  /// Throws kInvalidArgument.
  explicit RuleInput(tf::OpKernelConstruction* ctx);

  const char* name() const { return maker_.name(); }

  /// The rule of this step. Throws kInvalidArgument if a hyperparameter is rejected.
  Rule Read(tf::OpKernelContext* ctx) const;

 private:
  RuleMaker maker_;
  int num_hyperparameters_;
};

}  // namespace sok
