// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup/rule_input.h"

#include <vector>

#include "ops/base/names.h"
#include "ops/tf/base/border.h"

namespace sok {

std::string RuleAttribute() { return "rule: {" + NamesOf(NamedRules()) + "}"; }

RuleInput::RuleInput(tf::OpKernelConstruction* ctx)
    : maker_(Attribute<std::string>(ctx, "rule"),
             Attribute<std::vector<std::string>>(ctx, "hyperparameter_names")),
      num_hyperparameters_(static_cast<int>(Attribute<int64_t>(ctx, "num_hyperparameters"))) {}

Rule RuleInput::Read(tf::OpKernelContext* ctx) const {
  std::vector<float> values;
  for (int i = 0; i < num_hyperparameters_; ++i) {
    values.push_back(InputOfRank(ctx, "hyperparameters", 0, i).scalar<float>()());
  }
  return maker_.Make(values);
}

}  // namespace sok
