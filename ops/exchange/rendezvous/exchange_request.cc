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
  return request.collective.label + "/" + request.exchange;
}

Outgoing OutgoingOf(ExchangeRequest* request) {
  Outgoing outgoing{std::move(request->pieces), request->send_bytes, std::move(request->memory)};
  if (request->data.empty()) return outgoing;
  const auto data = std::make_shared<const std::vector<char>>(std::move(request->data));
  size_t begin = 0;
  for (const int64_t bytes : outgoing.send_bytes) {
    const auto size = static_cast<size_t>(bytes);
    if (size > 0) outgoing.pieces.emplace_back(data->data() + begin, size);
    begin += size;
  }
  outgoing.memory = data;
  return outgoing;
}

std::vector<Pieces> Outgoing::ByRank() const {
  std::vector<Pieces> by_rank;
  size_t next = 0;
  for (int64_t left : send_bytes) {
    by_rank.emplace_back();
    for (; left > 0; left -= static_cast<int64_t>(by_rank.back().back().size()))
      by_rank.back().push_back(pieces[next++]);
  }
  return by_rank;
}

void SetOwnPart(const Pieces& pieces, size_t own_rank, ExchangeResult* result) {
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
