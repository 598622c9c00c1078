// SPDX-License-Identifier: Apache-2.0
// What all ranks sent in a round, sorted by exchange.
#ifndef SOK_OPS_EXCHANGE_ARRIVALS_H_
#define SOK_OPS_EXCHANGE_ARRIVALS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ops/exchange/message.h"

namespace sok {

/// What came for one exchange, by source rank; of some ranks only, where not all are ready.
struct Arrival {
  std::vector<std::pair<const char*, int64_t>> parts;
  std::vector<int64_t> steps;          // of the ranks that offer it, also without data yet
  std::vector<uint64_t> descriptions;  // of the lookup, their hashes

  int64_t size_bytes() const;
  /// The parts one after the other.
  std::vector<char> Join() const;
};

/// By lookup and exchange hash; the same order on all ranks.
using Arrivals = std::map<std::pair<Meeting, uint64_t>, Arrival>;

struct Round {
  std::vector<Message> messages;  // by source rank
  Arrivals arrivals;              // in the data that was read; it must outlive this
};

/// Reads what all ranks sent to this one: data by source rank, of received_bytes [num_ranks].
/// Throws kIo where it is not what ranks send.
Round ReadRound(const char* data, const std::vector<int64_t>& received_bytes);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_ARRIVALS_H_
