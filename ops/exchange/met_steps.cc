// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/met_steps.h"

#include <cstddef>

namespace sok {
namespace {

constexpr size_t kStepsRemembered = 1024;  // of each rank

}  // namespace

bool MetSteps::Match(const std::vector<int64_t>& steps) {
  bool all_match = true;
  for (size_t rank = 0; rank < steps.size(); ++rank) {
    const auto met = met_.try_emplace({steps[rank], static_cast<int>(rank)}, steps).first;
    all_match = all_match && met->second == steps;
  }
  while (met_.size() > kStepsRemembered * steps.size()) met_.erase(met_.begin());
  return all_match;
}

}  // namespace sok
