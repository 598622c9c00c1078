// SPDX-License-Identifier: Apache-2.0
// An op's request to the other ranks, and its result.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/base/error.h"
#include "ops/exchange/outgoing.h"
#include "ops/exchange/rendezvous/collective_registry.h"

namespace sok {

/// The result of a request: an error message, or the bytes that all ranks sent to this one.
struct ExchangeResult {
  std::string error;  // empty: success
  ErrorCode code = ErrorCode::kAborted;
  std::vector<std::string_view> parts;   // by source rank; valid until `done` returns
  std::shared_ptr<const void> own_part;  // memory of this rank's part, if it came in pieces
};

struct ExchangeRequest {
  Collective collective;      // the lookup
  std::string exchange;       // name within the lookup; one pending at a time
  StepId step_id;             // of the requesting op; its failure fails the lookup
  bool is_patient = false;    // may wait for another rank longer than stall_seconds
  bool ends_session = false;  // no further step of this graph's session follows
  Outgoing outgoing;
  std::function<void(ExchangeResult)> done;  // called once, from any thread
};

ExchangeResult FailedExchange(ErrorCode code, std::string message);

/// For error messages.
std::string ExchangeName(const ExchangeRequest& request);

/// Makes a rank's bytes for itself, which are not sent, its part of the result.
void SetOwnPart(const Outgoing& outgoing, size_t own_rank, ExchangeResult* result);

}  // namespace sok
