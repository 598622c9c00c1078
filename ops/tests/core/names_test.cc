// SPDX-License-Identifier: Apache-2.0
// Lists of names: each name makes its own thing, and an unknown one is an error.
#include "ops/base/names.h"

#include <set>

#include "ops/base/placement.h"
#include "ops/engine/bags.h"
#include "ops/engine/first_value.h"
#include "ops/engine/named_rules.h"
#include "ops/exchange/payload/wire_format.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

using Names = std::vector<std::string>;

template <typename List>
void CheckIsAnErrorToLack(const List& list, const char* what) {
  std::set<std::string> names;
  for (const auto& item : list) {
    names.insert(item.name);
    CHECK_TRUE(&ItemNamed(list, what, item.name) == &item);
  }
  CHECK_EQ(names.size(), std::size(list));
  for (const char* name : {"", "other", "modul", "modulos"}) {
    CHECK_THROWS(ErrorCode::kInvalidArgument,
                 (Names{std::string(what) + " must be one of '", *names.begin(), "got '", name}),
                 ItemNamed(list, what, name));
  }
}

SOK_TEST(AnUnknownNameIsAnError) {
  CheckIsAnErrorToLack(kPlacementKinds, "placement_kind");
  CheckIsAnErrorToLack(kFirstValueKinds, "first_value");
  CheckIsAnErrorToLack(kCombiners, "combiner");
  CheckIsAnErrorToLack(kElements, "wire_dtype");
  CheckIsAnErrorToLack(NamedRules(), "rule");
  CHECK_THROWS(ErrorCode::kInvalidArgument, (Names{"'sgd', ", "got 'rms'"}), RuleMaker("rms", {}));
}

SOK_TEST(HyperparametersComeByNameInAnyOrder) {
  const RuleMaker maker("adam", {"epsilon", "beta2", "step_size", "beta1"});
  const auto rule = std::get<AdamRule>(maker.Make({4, 3, 1, 2}));
  CHECK_EQ(rule.step_size, 1);
  CHECK_EQ(rule.beta1, 2);
  CHECK_EQ(rule.beta2, 3);
  CHECK_EQ(rule.epsilon, 4);
  const Names of_momentum = {"momentum", "learning_rate"};
  for (const bool is_nesterov : {false, true}) {
    const RuleMaker momentum(is_nesterov ? "nesterov" : "momentum", of_momentum);
    const auto made = std::get<MomentumRule>(momentum.Make({0.5, 0.25}));
    CHECK_EQ(made.momentum, 0.5);
    CHECK_EQ(made.learning_rate, 0.25);
    CHECK_EQ(made.use_nesterov, is_nesterov);
  }
}

SOK_TEST(HyperparametersThatAreNotTheRulesAreAnError) {
  for (const NamedRule& rule : NamedRules()) {
    const Names own = rule.hyperparameters;
    CHECK_THROWS(ErrorCode::kInvalidArgument, (Names{rule.name, own[0]}), RuleMaker(rule.name, {}));
    Names other = own;
    other.back() = "other";
    CHECK_THROWS(ErrorCode::kInvalidArgument, (Names{own.back(), "other"}),
                 RuleMaker(rule.name, other));
    Names twice = own;
    twice.push_back(own[0]);
    CHECK_THROWS(ErrorCode::kInvalidArgument, (Names{own[0]}), RuleMaker(rule.name, twice));
    const RuleMaker maker(rule.name, own);
    maker.Make(std::vector<float>(own.size(), 0.5f));
    CHECK_THROWS(ErrorCode::kInvalidArgument, (Names{"hyperparameters, got 0 values"}),
                 maker.Make({}));
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
