// SPDX-License-Identifier: Apache-2.0
// What an op asks of the other ranks, and what becomes of it.
#ifndef SOK_OPS_EXCHANGE_EXCHANGE_REQUEST_H_
#define SOK_OPS_EXCHANGE_EXCHANGE_REQUEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/base/error.h"
#include "ops/exchange/meetings.h"
#include "ops/exchange/proposal.h"

namespace sok {

/// What became of a request: an error message, or the bytes that all ranks sent to this one.
struct ExchangeResult {
  std::string error;  // empty: success
  ErrorCode code = ErrorCode::kAborted;
  std::vector<std::string_view> parts;   // by source rank; until `done` returns
  std::shared_ptr<const void> own_part;  // memory of that of this rank, where it was in pieces
};

struct ExchangeRequest {
  std::string kind;                          // requests of one kind may be able to go together
  Ticket ticket;                             // of the lookup
  std::string exchange;                      // which one of the lookup; one pending at a time
  StepId step_id;                            // of what asks; its failure is the lookup's
  bool is_patient = false;                   // may wait for another rank longer than stall_seconds,
                                             // and so does what it sends
  bool is_alone = false;                     // none of this rank comes together with it
  bool is_of_tables = true;                  // else it is counted as of dense gradients
  std::vector<char> data;                    // by destination rank
  std::vector<int64_t> send_bytes;           // [num_ranks]
  Pieces pieces;                             // in the place of data, where it stands elsewhere: as
  std::shared_ptr<const void> memory;        // in Outgoing
  std::function<void(ExchangeResult)> done;  // called once, from any thread
};

ExchangeResult FailedExchange(ErrorCode code, std::string message);

/// For messages.
std::string ExchangeName(const ExchangeRequest& request);

/// What a request sends; its data, pieces and memory are moved from.
Outgoing OutgoingOf(ExchangeRequest* request);

/// What a rank has for itself, which has not travelled, becomes its part of the result.
void SetOwnPart(const Outgoing& outgoing, size_t own_rank, ExchangeResult* result);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_EXCHANGE_REQUEST_H_
