// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/arrivals.h"

#include "ops/base/error.h"

namespace sok {
namespace {

[[noreturn]] void ThrowOtherBytes() {
  Throw(ErrorCode::kIo, "a rank sent other bytes than it had announced");
}

/// What follows a message; null: there was no memory for it.
void AddOffers(const Message& message, const char* payload, int64_t payload_bytes,
               Arrivals* arrivals) {
  for (const Offer& offer : message.offers) {
    if (offer.size_bytes < 0 || offer.size_bytes > payload_bytes) ThrowOtherBytes();
    Arrival& arrival = (*arrivals)[{offer.meeting, offer.exchange_hash}];
    const auto size = static_cast<size_t>(offer.size_bytes);
    if (!offer.is_announced)
      arrival.parts.push_back(payload ? std::string_view(payload, size) : "");
    arrival.is_cut = arrival.is_cut || (!payload && size > 0);
    arrival.steps.push_back(offer.step);
    arrival.descriptions.push_back(offer.description_hash);
    if (payload) payload += offer.size_bytes;
    payload_bytes -= offer.size_bytes;
  }
  if (payload_bytes != 0) ThrowOtherBytes();
}

}  // namespace

std::vector<std::string_view> SplitBySource(const char* data,
                                            const std::vector<int64_t>& received_bytes) {
  std::vector<std::string_view> split;
  for (const int64_t bytes : received_bytes) {
    split.emplace_back(data, static_cast<size_t>(bytes));
    data += bytes;
  }
  return split;
}

Round ReadRound(const Received& received) {
  Round round;
  for (const std::string_view bytes : received.messages) {
    size_t header_bytes = 0;
    round.messages.push_back(Message::Parse(bytes, &header_bytes));
    const auto total_bytes = static_cast<size_t>(round.messages.back().total_bytes);
    if (bytes.size() != (received.are_cut ? header_bytes : total_bytes)) ThrowOtherBytes();
    AddOffers(round.messages.back(), received.are_cut ? nullptr : bytes.data() + header_bytes,
              static_cast<int64_t>(total_bytes - header_bytes), &round.arrivals);
  }
  return round;
}

}  // namespace sok
