// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup/make_rule.h"

#include "ops/base/error.h"

namespace sok {
namespace {

class RuleMaker {
 public:
  RuleMaker(const std::string& name, bool use_nesterov, const std::vector<float>& values)
      : name_(name), use_nesterov_(use_nesterov), values_(values) {}

  Rule Make() const {
    if (name_ == "sgd") return SgdRule{At(0, 1)};
    if (name_ == "adagrad") return AdagradRule{At(0, 2), At(1, 2)};
    if (name_ == "adam") return AdamRule{At(0, 4), At(1, 4), At(2, 4), At(3, 4)};
    if (name_ == "adamw") return AdamWRule{{At(0, 5), At(1, 5), At(2, 5), At(3, 5)}, At(4, 5)};
    if (name_ == "decay") return DecayRule{At(0, 2), At(1, 2)};
    if (name_ == "ftrl") return Ftrl();
    if (name_ == "momentum") return MomentumRule{At(0, 2), At(1, 2), use_nesterov_};
    return RmspropRule{At(0, 4), At(1, 4), At(2, 4), At(3, 4)};
  }

 private:
  /// A learning rate of 0 would be divided by.
  FtrlRule Ftrl() const {
    const FtrlRule rule{At(0, 4), At(1, 4), At(2, 4), At(3, 4)};
    CheckIs(rule.learning_rate > 0.0f, "learning rate", "above 0", rule.learning_rate);
    CheckIs(rule.l1 >= 0.0f, "l1", "at least 0", rule.l1);
    CheckIs(rule.l2 >= 0.0f, "l2", "at least 0", rule.l2);
    CheckIs(rule.l2_shrinkage >= 0.0f, "l2 shrinkage", "at least 0", rule.l2_shrinkage);
    return rule;
  }

  void CheckIs(bool is_good, const char* what, const char* wanted, float value) const {
    if (is_good) return;
    Throw(ErrorCode::kInvalidArgument, "the rule '", name_, "' takes a ", what, " ", wanted,
          ", got ", value);
  }

  float At(size_t place, size_t count) const {
    if (values_.size() == count) return values_[place];
    Throw(ErrorCode::kInvalidArgument, "the rule '", name_, "' has ", count,
          " hyperparameters, got ", values_.size());
  }

  const std::string& name_;
  const bool use_nesterov_;
  const std::vector<float>& values_;
};

}  // namespace

Rule MakeRule(const std::string& name, bool use_nesterov, const std::vector<float>& values) {
  return RuleMaker(name, use_nesterov, values).Make();
}

}  // namespace sok
