// SPDX-License-Identifier: Apache-2.0
// Rules and their hyperparameters by name: the one list of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/engine/rules.h"

namespace sok {

struct NamedRule {
  const char* name;
  std::vector<std::string> hyperparameters;
  /// Of values in the order of `hyperparameters`. Throws kInvalidArgument if TensorFlow's ops
  /// reject one.
  std::function<Rule(const std::vector<float>& values)> make;
};

const std::vector<NamedRule>& NamedRules();

/// Makes rules of one name from values in the caller's order.
class RuleMaker {
 public:
  /// Throws kInvalidArgument if no rule is called `name`, or `hyperparameters` are not its own.
  RuleMaker(const std::string& name, const std::vector<std::string>& hyperparameters);

  const char* name() const { return rule_.name; }

  /// Throws kInvalidArgument if values are not as many as hyperparameters, or one is rejected.
  Rule Make(const std::vector<float>& values) const;

 private:
  const NamedRule& rule_;
  std::vector<size_t> places_;  // of the rule's hyperparameters among the caller's
};

}  // namespace sok
