// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/missing_ranks.h"

#include <algorithm>

#include "ops/exchange/descriptions.h"

namespace sok {

std::string MissingRanks(const std::vector<Message>& messages, const ExchangeRequest& request,
                         int64_t step, double waited) {
  const uint64_t exchange_hash = NameHash(request.exchange);
  const auto is_wanted = [&](const Offer& offer) {
    return offer.meeting == request.ticket.meeting && offer.exchange_hash == exchange_hash;
  };
  std::vector<int> missing;
  std::string doing;
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    const Message& message = messages[rank];
    if (std::any_of(message.offers.begin(), message.offers.end(), is_wanted)) continue;
    missing.push_back(static_cast<int>(rank));
    doing += ", rank " + std::to_string(rank) + " has begun " + std::to_string(message.num_steps) +
             " steps and waits for " + (message.waits_for.empty() ? "nothing" : message.waits_for);
  }
  if (missing.empty()) return "";
  return "waited " + std::to_string(static_cast<int>(waited)) + " s for " + JoinRanks(missing) +
         ", more than SOK_STALL_TIMEOUT_SECONDS; this rank is in step " + std::to_string(step) +
         doing + ". All ranks must run the same layers in the same number of steps";
}

}  // namespace sok
