// SPDX-License-Identifier: Apache-2.0
// What a rank tells another in a round, as bytes; what it sends for the requests follows.
#ifndef SOK_OPS_EXCHANGE_MESSAGE_H_
#define SOK_OPS_EXCHANGE_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ops/exchange/known_exchanges.h"

namespace sok {

/// A lookup of all ranks: its `number`-th time, or what it is in the number-th call.
struct Meeting {
  uint64_t lookup_hash = 0;
  int64_t number = 0;

  bool operator<(const Meeting& other) const {
    return std::tie(number, lookup_hash) < std::tie(other.number, other.lookup_hash);
  }
  bool operator==(const Meeting& other) const {
    return std::tie(number, lookup_hash) == std::tie(other.number, other.lookup_hash);
  }
};

/// Where that is which a rank sends for a request.
enum class Payload : int64_t {
  kFollows,     // behind the message
  kWillFollow,  // when all ranks offer it
  kCameBefore,  // behind an earlier message
};

/// A request that waits on a rank.
struct Offer {
  Meeting meeting;
  uint64_t exchange_hash = 0;  // which exchange of the lookup
  int64_t step = 0;            // of the rank that offers: steps as a whole meet steps as a whole
  int64_t size_bytes = 0;      // of what follows for it
  Payload payload = Payload::kFollows;
  uint64_t description_hash = 0;
};

ExchangeKind KindOf(const Offer& offer);

/// A lookup that failed on the rank that tells it.
struct LookupFailure {
  Meeting meeting;
  std::string message;  // goes on after "rank 3 "
};

/// What a message begins with, so that it is known when only a part of it has come.
struct MessageSizes {
  int64_t longest_bytes = 0;  // of what the sender sends to any rank in this round
  int64_t total_bytes = 0;    // of this message, with what follows for its offers
  int64_t header_bytes = 0;   // without

  /// Throws kIo where there is no such message.
  static MessageSizes Parse(std::string_view bytes);
};

/// Says in a message, as Serialize made it, how long it is and the longest of its sender are.
void SetSizes(int64_t longest_bytes, int64_t total_bytes, std::string* message);

struct Message {
  int64_t total_bytes = 0;  // as in MessageSizes; Serialize leaves it to SetSizes
  bool is_leaving = false;
  int64_t num_steps = 0;  // begun so far
  std::string waits_for;  // what the sender has long been waiting for; empty: nothing
  std::vector<Offer> offers;
  std::vector<LookupFailure> failures;
  std::vector<std::string> descriptions;  // of lookups, those that no rank has told before

  /// known: the same for whoever writes and whoever reads.
  std::string Serialize(const KnownExchanges& known) const;
  /// Reads a message at the start of `bytes`; *header_bytes: how long it is.
  static Message Parse(std::string_view bytes, const KnownExchanges& known, size_t* header_bytes);
};

/// The same on every rank.
uint64_t NameHash(const std::string& name);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_MESSAGE_H_
