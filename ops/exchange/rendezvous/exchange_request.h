// SPDX-License-Identifier: Apache-2.0
// An op's request to the other ranks, and its result.
#ifndef SOK_OPS_EXCHANGE_RENDEZVOUS_EXCHANGE_REQUEST_H_
#define SOK_OPS_EXCHANGE_RENDEZVOUS_EXCHANGE_REQUEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/base/error.h"
#include "ops/exchange/rendezvous/collective_registry.h"
#include "ops/exchange/transport/transport.h"

namespace sok {

/// The result of a request: an error message, or the bytes that all ranks sent to this one.
struct ExchangeResult {
  std::string error;  // empty: success
  ErrorCode code = ErrorCode::kAborted;
  std::vector<std::string_view> parts;   // by source rank; valid until `done` returns
  std::shared_ptr<const void> own_part;  // memory of this rank's part, if it came in pieces
};

struct ExchangeRequest {
  Collective collective;                     // the lookup
  std::string exchange;                      // name within the lookup; one pending at a time
  StepId step_id;                            // of the requesting op; its failure fails the lookup
  bool is_patient = false;                   // may wait for another rank longer than stall_seconds
  bool ends_session = false;                 // no further step of this graph's session follows
  std::vector<char> data;                    // by destination rank
  std::vector<int64_t> send_bytes;           // [num_ranks]
  Pieces pieces;                             // instead of data, for bytes that are elsewhere;
  std::shared_ptr<const void> memory;        // as in Outgoing
  std::function<void(ExchangeResult)> done;  // called once, from any thread
};

/// Bytes for all ranks in order, by reference.
struct Outgoing {
  Pieces pieces;                       // each non-empty, with bytes for one rank
  std::vector<int64_t> send_bytes;     // [num_ranks]
  std::shared_ptr<const void> memory;  // of the pieces

  /// The pieces of each rank.
  std::vector<Pieces> ByRank() const;
};

ExchangeResult FailedExchange(ErrorCode code, std::string message);

/// For error messages.
std::string ExchangeName(const ExchangeRequest& request);

/// The bytes that a request sends; moves from its data, pieces and memory.
Outgoing OutgoingOf(ExchangeRequest* request);

/// Makes a rank's pieces for itself, which are not sent, its part of the result.
void SetOwnPart(const Pieces& pieces, size_t own_rank, ExchangeResult* result);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_RENDEZVOUS_EXCHANGE_REQUEST_H_
