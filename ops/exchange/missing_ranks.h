// SPDX-License-Identifier: Apache-2.0
// Which ranks a request waits for in vain.
#ifndef SOK_OPS_EXCHANGE_MISSING_RANKS_H_
#define SOK_OPS_EXCHANGE_MISSING_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/exchange/exchange_request.h"
#include "ops/exchange/message.h"

namespace sok {

/// The ranks whose messages do not offer the exchange, and what they do instead, for an error;
/// step: of this rank; waited: seconds so far. Empty: all do.
std::string MissingRanks(const std::vector<Message>& messages, const ExchangeRequest& request,
                         int64_t step, double waited);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_MISSING_RANKS_H_
