// SPDX-License-Identifier: Apache-2.0
// What all ranks sent in a round, sorted by exchange.
#ifndef SOK_OPS_EXCHANGE_ARRIVALS_H_
#define SOK_OPS_EXCHANGE_ARRIVALS_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "ops/exchange/early_parts.h"
#include "ops/exchange/message.h"

namespace sok {

/// What came for one exchange, by source rank; of some ranks only, where not all are ready.
struct Arrival {
  std::vector<Part> parts;             // what has come, now or before
  std::vector<int64_t> steps;          // of the ranks that offer it, also without data yet
  std::vector<uint64_t> descriptions;  // of the lookup, their hashes
};

/// The same order on all ranks.
using Arrivals = std::map<ExchangePlace, Arrival>;

struct Round {
  std::vector<Message> messages;  // by source rank
  Arrivals arrivals;              // in the data that was read, and in early parts
};

/// What came in a round.
struct Received {
  std::vector<std::string_view> messages;  // by source rank
  bool are_cut = false;  // there was no memory for what follows the messages for their offers
};

/// `data` of all ranks, one after the other; received_bytes is [num_ranks].
std::vector<std::string_view> SplitBySource(const char* data,
                                            const std::vector<int64_t>& received_bytes);

/// Reads what all ranks sent to this one; early: in the rounds before; known: as in
/// Message::Serialize. Throws kIo where it is not what ranks send.
Round ReadRound(const Received& received, const EarlyParts& early, const KnownExchanges& known);

/// What has come for exchanges of which a part is missing; of those that ranks do not offer any
/// more, nothing. What is `early` already is moved.
EarlyParts KeepParts(const Arrivals& incomplete, EarlyParts* early);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_ARRIVALS_H_
