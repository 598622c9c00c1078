// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/companions.h"

#include <algorithm>
#include <utility>

namespace sok {
namespace {

constexpr int kTrials = 16;

}  // namespace

const std::set<std::string>* Companions::Of(const std::string& name) const {
  const auto expected = expected_.find(name);
  return expected == expected_.end() ? nullptr : expected->second.names.get();
}

const std::set<std::string>& Companions::Exchanged(int64_t step, const std::string& kind) const {
  static const std::set<std::string> none;
  const auto last = last_groups_.find(kind);
  return last == last_groups_.end() || last->second.step != step ? none : last->second.names;
}

void Companions::Learn(const std::vector<Request>& requests) {
  std::map<std::pair<int64_t, std::string>, Group> groups;
  for (const Request& request : requests) {
    Group& group = groups[{request.step, request.kind}];
    group.step = request.step;
    group.names.insert(request.name);
  }
  for (auto& [step_and_kind, group] : groups)
    LearnGroup(std::move(group), &last_groups_[step_and_kind.second]);
}

/// The names of one exchange are expected together from now on. If others of their kind came before
/// in the same step, the two groups are tried as one: in a first step or on a busy machine,
/// requests that could have gone together miss each other. Those that wait for each other's results
/// never can, so tries that fail are counted.
void Companions::LearnGroup(Group group, Group* last) {
  const std::set<std::string>* same = nullptr;  // has been compared
  const bool was_tried = std::all_of(group.names.begin(), group.names.end(), [&](const auto& name) {
    const auto expected = expected_.find(name);
    if (expected == expected_.end() || !expected->second.is_trial) return false;
    const std::set<std::string>* names = expected->second.names.get();
    if (names != same && *names != group.names) return false;
    same = names;
    return true;
  });
  const auto shared = std::make_shared<const std::set<std::string>>(group.names);
  for (const std::string& name : group.names) {
    expected_[name] = {shared, false};
    if (was_tried) trials_left_[name] = kTrials;
  }
  if (last->step == group.step) {
    std::set<std::string> both = group.names;
    both.insert(last->names.begin(), last->names.end());
    const bool may_try = std::all_of(both.begin(), both.end(), [&](const std::string& name) {
      return trials_left_.try_emplace(name, kTrials).first->second > 0;
    });
    const auto shared_both = std::make_shared<const std::set<std::string>>(both);
    for (const std::string& name : both) {
      if (!may_try) break;
      --trials_left_[name];
      expected_[name] = {shared_both, true};
    }
    group.names = std::move(both);
  }
  *last = std::move(group);
}

}  // namespace sok
