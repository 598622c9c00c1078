// SPDX-License-Identifier: Apache-2.0
// What an op requests of the other ranks, and the reply.
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

/// The reply to a request: an error message, or the bytes that all ranks sent to this one.
struct ExchangeResult {
  std::string error;  // empty: success
  ErrorCode code = ErrorCode::kAborted;
  std::vector<std::string_view> parts;   // by source rank; until `done` returns
  std::shared_ptr<const void> own_part;  // memory of that of this rank, where it was in pieces
};

struct ExchangeRequest {
  Collective collective;                     // of the lookup
  std::string exchange;                      // which one of the lookup; one pending at a time
  StepId step_id;                            // of what asks; its failure is the lookup's
  bool is_patient = false;                   // may wait for another rank longer than stall_seconds
  std::vector<char> data;                    // by destination rank
  std::vector<int64_t> send_bytes;           // [num_ranks]
  Pieces pieces;                             // in the place of data, where it stands elsewhere;
  std::shared_ptr<const void> memory;        // as in Outgoing
  std::function<void(ExchangeResult)> done;  // called once, from any thread
};

/// Bytes for all ranks, one after the other, where they stand.
struct Outgoing {
  Pieces pieces;                       // none has bytes of two ranks, and none is empty
  std::vector<int64_t> send_bytes;     // [num_ranks]
  std::shared_ptr<const void> memory;  // of the pieces

  /// The pieces of each rank.
  std::vector<Pieces> ByRank() const;
};

ExchangeResult FailedExchange(ErrorCode code, std::string message);

/// For messages.
std::string ExchangeName(const ExchangeRequest& request);

/// What a request sends; its data, pieces and memory are moved from.
Outgoing OutgoingOf(ExchangeRequest* request);

/// A rank's pieces for itself, which do not travel, become its part of the result.
void SetOwnPart(const Pieces& pieces, size_t own_rank, ExchangeResult* result);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_RENDEZVOUS_EXCHANGE_REQUEST_H_
