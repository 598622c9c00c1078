// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/payload/same_requests.h"

#include <functional>

namespace sok {

RankBits SameRequests::AlikeIn(const std::vector<std::string_view>& requests) {
  if (num_steps_ >= kMostSteps) return 0;
  ++num_steps_;
  const std::string_view first = requests.front();
  if (first.size() < kLeastBytes) return 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t hash = std::hash<std::string_view>()(first);
  if (hash == last_) return 0;
  last_ = hash;
  RankBits alike = 0;
  for (size_t rank = 0; rank < requests.size() && rank < 64; ++rank) {
    if (requests[rank] == first) alike |= RankBits{1} << rank;
  }
  return alike;
}

RankBits TrainedAlike::Note(RankBits alike) {
  if (alike == 0) return 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  alike_ &= alike;
  const bool is_rank_0_alone = alike_ == 1;
  return ++num_steps_ == kSteps && !is_rank_0_alone ? alike_ : 0;
}

}  // namespace sok
