// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/rendezvous/exchange_request.h"

#include <utility>

namespace sok {

ExchangeResult FailedExchange(ErrorCode code, std::string message) {
  ExchangeResult result;
  result.code = code;
  result.error = std::move(message);
  return result;
}

std::string ExchangeName(const ExchangeRequest& request) {
  return request.collective.Text() + "/" + request.exchange;
}

void SetOwnPart(const Outgoing& outgoing, size_t own_rank, ExchangeResult* result) {
  const Pieces& pieces = outgoing.by_rank[own_rank];
  std::string_view& part = result->parts[own_rank];
  part = pieces.empty() ? std::string_view() : pieces.front();
  if (pieces.size() < 2) return;
  const auto joined = std::make_shared<std::vector<char>>();
  joined->reserve(NumBytes(pieces));
  for (const std::string_view piece : pieces)
    joined->insert(joined->end(), piece.begin(), piece.end());
  part = {joined->data(), joined->size()};
  result->own_part = joined;
}

}  // namespace sok
