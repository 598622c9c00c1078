// SPDX-License-Identifier: Apache-2.0
// Requests that are not complete: those of this rank, and what other ranks sent for them. Leaves
// locking to its owner.
#ifndef SOK_OPS_EXCHANGE_RENDEZVOUS_RECEIVE_BUFFER_H_
#define SOK_OPS_EXCHANGE_RENDEZVOUS_RECEIVE_BUFFER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/exchange/protocol/message.h"
#include "ops/exchange/rendezvous/exchange_request.h"

namespace sok {

/// A lookup and the hash of which exchange of it.
using ExchangePlace = std::pair<CollectiveId, uint64_t>;

class ReceiveBuffer {
 public:
  using Clock = std::chrono::steady_clock;

  /// What a rank sent for a request.
  struct Part {
    std::string_view bytes;
    std::unique_ptr<char[]> kept;  // holds `bytes`, unless they stand where the transport has them
    bool is_cut = false;           // memory for it was refused
    std::shared_ptr<const Description> description;  // of the lookup; null: nothing has come

    /// Copies `bytes`, which are valid for now only.
    void Keep();
  };

  struct Entry {
    ExchangePlace place;
    std::string lookup;                      // for messages
    std::optional<ExchangeRequest> request;  // of this rank; none: it has not asked yet
    Pieces own_pieces;
    std::shared_ptr<const void> own_memory;
    int64_t sent_bytes = 0;   // to other ranks
    Clock::time_point since;  // when this rank asked or, before that, when the first part came
    std::vector<Part> parts;  // [num_ranks]
    size_t num_missing = 0;   // parts of other ranks
    bool is_sent = false;     // the request, to all other ranks

    /// Not before it has been sent: what fails after it must not overtake it on its way to a rank.
    bool is_complete() const { return request && is_sent && num_missing == 0; }
  };

  explicit ReceiveBuffer(size_t num_ranks) : num_ranks_(num_ranks) {}

  /// The entry of this rank's request is sent. It, if it is complete.
  std::optional<Entry> Sent(const ExchangePlace& place);

  /// The entry at the place, made if there is none.
  Entry& At(const ExchangePlace& place, const std::string& lookup);

  Entry Take(const ExchangePlace& place);
  /// The entries of a lookup that rank `failed` has failed, but for requests for which it has sent
  /// its part before: these may still be completed, as on the other ranks. negative: all.
  std::vector<Entry> TakeFailed(const CollectiveId& collective, int failed);

  /// Whether this rank has asked.
  bool HasRequest(const ExchangePlace& place) const;
  /// Of a lookup, whether other ranks wait for it.
  bool HasAny(const CollectiveId& collective) const;

  const std::map<ExchangePlace, Entry>& entries() const { return entries_; }

 private:
  const size_t num_ranks_;
  std::map<ExchangePlace, Entry> entries_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_RENDEZVOUS_RECEIVE_BUFFER_H_
