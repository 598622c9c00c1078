// SPDX-License-Identifier: Apache-2.0
// Incomplete requests: those of this rank, and data that other ranks sent for them. Locking is up
// to its owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/exchange/protocol/message.h"
#include "ops/exchange/rendezvous/exchange_request.h"

namespace sok {

/// A lookup, and the hash of the exchange's name within it.
using ExchangePlace = std::pair<CollectiveId, uint64_t>;

class ReceiveBuffer {
 public:
  using Clock = std::chrono::steady_clock;

  /// A rank's data for a request.
  struct Part {
    std::string_view bytes;
    std::unique_ptr<char[]> kept;                    // owns `bytes`, unless the transport does
    bool is_cut = false;                             // memory for the message was refused
    std::shared_ptr<const Description> description;  // of the lookup; null: no data yet

    /// Copies `bytes`, which are about to become invalid.
    void Keep();
  };

  struct Entry {
    ExchangePlace place;
    LookupName lookup;
    std::optional<ExchangeRequest> request;  // of this rank; none: not submitted yet
    int64_t sent_bytes = 0;                  // to other ranks
    Clock::time_point since;  // of this rank's request or, before that, of the first part
    std::vector<Part> parts;  // [num_ranks]
    size_t num_missing = 0;   // parts of other ranks not received
    bool is_sent = false;     // this rank's request, to all other ranks

    /// False until this rank's request is sent: a later failure message must not overtake it.
    bool is_complete() const { return request && is_sent && num_missing == 0; }
  };

  explicit ReceiveBuffer(size_t num_ranks) : num_ranks_(num_ranks) {}

  /// Marks this rank's request as sent. Returns the entry if it is complete.
  std::optional<Entry> Sent(const ExchangePlace& place);

  /// The entry at the place, created if there is none.
  Entry& At(const ExchangePlace& place, const LookupName& lookup);

  Entry Take(const ExchangePlace& place);
  /// The entries of a lookup that rank `failed` has failed, except for requests for which it had
  /// already sent its part: these may still be completed, as on other ranks. Negative: all entries.
  std::vector<Entry> TakeFailed(const CollectiveId& collective, int failed);

  /// Whether this rank has submitted the request.
  bool HasRequest(const ExchangePlace& place) const;
  /// Whether other ranks wait for any exchange of the lookup.
  bool HasAny(const CollectiveId& collective) const;

  const std::map<ExchangePlace, Entry>& entries() const { return entries_; }

 private:
  const size_t num_ranks_;
  std::map<ExchangePlace, Entry> entries_;
};

}  // namespace sok
