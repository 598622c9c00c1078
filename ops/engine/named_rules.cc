// SPDX-License-Identifier: Apache-2.0
#include "ops/engine/named_rules.h"

#include <algorithm>

#include "ops/base/error.h"
#include "ops/base/names.h"

namespace sok {
namespace {

enum class Limit { kNone, kAtLeastZero, kAboveZero };

template <typename OneRule>
struct Hyperparameter {
  const char* name;
  float OneRule::* field;
  Limit limit = Limit::kNone;
};

void Check(const char* rule, const char* name, Limit limit, float value) {
  if (limit == Limit::kNone || value > 0.0f) return;
  if (limit == Limit::kAtLeastZero && value == 0.0f) return;
  Throw(ErrorCode::kInvalidArgument, "the rule '", rule, "': ", name, " must be ",
        limit == Limit::kAboveZero ? "above" : "at least", " 0, got ", value);
}

/// `start` has the fields that are no hyperparameters.
template <typename OneRule>
NamedRule Describe(const char* name, std::vector<Hyperparameter<OneRule>> fields,
                   OneRule start = {}) {
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.name);
  const auto make = [name, fields, start](const std::vector<float>& values) -> Rule {
    OneRule rule = start;
    for (size_t i = 0; i < fields.size(); ++i) {
      Check(name, fields[i].name, fields[i].limit, values[i]);
      rule.*fields[i].field = values[i];
    }
    return rule;
  };
  return {name, names, make};
}

template <typename AnyAdagrad>
NamedRule DescribeAdagrad(const char* name) {
  return Describe<AnyAdagrad>(
      name, {{"learning_rate", &AnyAdagrad::learning_rate}, {"epsilon", &AnyAdagrad::epsilon}});
}

template <typename AnyFtrl>
NamedRule DescribeFtrl(const char* name) {
  return Describe<AnyFtrl>(name, {{"learning_rate", &AnyFtrl::learning_rate, Limit::kAboveZero},
                                  {"l1", &AnyFtrl::l1, Limit::kAtLeastZero},
                                  {"l2", &AnyFtrl::l2, Limit::kAtLeastZero},
                                  {"l2_shrinkage", &AnyFtrl::l2_shrinkage, Limit::kAtLeastZero}});
}

std::vector<NamedRule> MakeNamedRules() {
  const std::vector<Hyperparameter<MomentumRule>> of_momentum = {
      {"learning_rate", &MomentumRule::learning_rate}, {"momentum", &MomentumRule::momentum}};
  return {
      Describe<SgdRule>("sgd", {{"learning_rate", &SgdRule::learning_rate}}),
      DescribeAdagrad<AdagradRule>("adagrad"),
      DescribeAdagrad<RowWiseAdagradRule>("row_wise_adagrad"),
      Describe<AdamRule>("adam", {{"step_size", &AdamRule::step_size},
                                  {"beta1", &AdamRule::beta1},
                                  {"beta2", &AdamRule::beta2},
                                  {"epsilon", &AdamRule::epsilon}}),
      Describe<AdamWRule>("adamw", {{"step_size", &AdamWRule::step_size},
                                    {"beta1", &AdamWRule::beta1},
                                    {"beta2", &AdamWRule::beta2},
                                    {"epsilon", &AdamWRule::epsilon},
                                    {"weight_decay", &AdamWRule::weight_decay}}),
      Describe<DecayRule>("decay", {{"rate", &DecayRule::rate}, {"least", &DecayRule::least}}),
      DescribeFtrl<FtrlRule>("ftrl"),
      DescribeFtrl<FtrlGroupLassoRule>("ftrl_group_lasso"),
      Describe<MomentumRule>("momentum", of_momentum),
      Describe<MomentumRule>("nesterov", of_momentum, MomentumRule{0.0f, 0.0f, true}),
      Describe<RmspropRule>("rmsprop", {{"learning_rate", &RmspropRule::learning_rate},
                                        {"rho", &RmspropRule::rho},
                                        {"momentum", &RmspropRule::momentum},
                                        {"epsilon", &RmspropRule::epsilon}}),
  };
}

std::string Joined(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

}  // namespace

const std::vector<NamedRule>& NamedRules() {
  static const std::vector<NamedRule> rules = MakeNamedRules();
  return rules;
}

RuleMaker::RuleMaker(const std::string& name, const std::vector<std::string>& hyperparameters)
    : rule_(ItemNamed(NamedRules(), "rule", name)) {
  const auto& wanted = rule_.hyperparameters;
  for (const std::string& each : wanted) {
    const auto place = std::find(hyperparameters.begin(), hyperparameters.end(), each);
    if (place == hyperparameters.end() || hyperparameters.size() != wanted.size()) {
      Throw(ErrorCode::kInvalidArgument, "the rule '", name, "' has the hyperparameters ",
            Joined(wanted), "; got ", Joined(hyperparameters));
    }
    places_.push_back(static_cast<size_t>(place - hyperparameters.begin()));
  }
}

Rule RuleMaker::Make(const std::vector<float>& values) const {
  if (values.size() != places_.size()) {
    Throw(ErrorCode::kInvalidArgument, "the rule '", name(), "' has ", places_.size(),
          " hyperparameters, got ", values.size(), " values");
  }
  std::vector<float> in_order;
  for (const size_t place : places_) in_order.push_back(values[place]);
  return rule_.make(in_order);
}

}  // namespace sok
