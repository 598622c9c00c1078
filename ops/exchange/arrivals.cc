// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/arrivals.h"

#include "ops/base/error.h"

namespace sok {

int64_t Arrival::size_bytes() const {
  int64_t sum = 0;
  for (const auto& [data, bytes] : parts) sum += bytes;
  return sum;
}

std::vector<char> Arrival::Join() const {
  std::vector<char> joined;
  joined.reserve(static_cast<size_t>(size_bytes()));
  for (const auto& [data, bytes] : parts) joined.insert(joined.end(), data, data + bytes);
  return joined;
}

Round ReadRound(const char* data, const std::vector<int64_t>& received_bytes) {
  Round round;
  for (const int64_t size_bytes : received_bytes) {
    size_t message_bytes = 0;
    round.messages.push_back(Message::Parse(data, static_cast<size_t>(size_bytes), &message_bytes));
    const char* payload = data + message_bytes;
    data += size_bytes;
    for (const Offer& offer : round.messages.back().offers) {
      if (offer.size_bytes < 0 || offer.size_bytes > data - payload)
        Throw(ErrorCode::kIo, "a rank sent other bytes than it had announced");
      Arrival& arrival = round.arrivals[{offer.meeting, offer.exchange_hash}];
      if (!offer.is_announced) arrival.parts.emplace_back(payload, offer.size_bytes);
      arrival.steps.push_back(offer.step);
      arrival.descriptions.push_back(offer.description_hash);
      payload += offer.size_bytes;
    }
    if (payload != data) Throw(ErrorCode::kIo, "a rank sent other bytes than it had announced");
  }
  return round;
}

}  // namespace sok
