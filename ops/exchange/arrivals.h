// SPDX-License-Identifier: Apache-2.0
// What all ranks sent in a round, sorted by exchange.
#ifndef SOK_OPS_EXCHANGE_ARRIVALS_H_
#define SOK_OPS_EXCHANGE_ARRIVALS_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/exchange/message.h"

namespace sok {

/// What came for one exchange, by source rank; of some ranks only, where not all are ready.
struct Arrival {
  std::vector<std::string_view> parts;  // empty where there was no memory
  std::vector<int64_t> steps;           // of the ranks that offer it, also without data yet
  std::vector<uint64_t> descriptions;   // of the lookup, their hashes
  bool is_cut = false;                  // there was no memory for a part
};

/// By lookup and exchange hash; the same order on all ranks.
using Arrivals = std::map<std::pair<Meeting, uint64_t>, Arrival>;

struct Round {
  std::vector<Message> messages;  // by source rank
  Arrivals arrivals;              // in the data that was read; it must outlive this
};

/// What came in a round.
struct Received {
  std::vector<std::string_view> messages;  // by source rank
  bool are_cut = false;  // there was no memory for what follows the messages for their offers
};

/// `data` of all ranks, one after the other; received_bytes is [num_ranks].
std::vector<std::string_view> SplitBySource(const char* data,
                                            const std::vector<int64_t>& received_bytes);

/// Reads what all ranks sent to this one. Throws kIo where it is not what ranks send.
Round ReadRound(const Received& received);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_ARRIVALS_H_
