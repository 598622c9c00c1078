// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/arrivals.h"

#include "ops/base/error.h"

namespace sok {
namespace {

[[noreturn]] void ThrowOtherBytes() {
  Throw(ErrorCode::kIo, "a rank sent other bytes than it had announced");
}

/// Takes apart what one rank sent.
class OffersOfRank {
 public:
  /// payload: what follows its message; null: there was no memory for it.
  OffersOfRank(int source, const char* payload, int64_t payload_bytes, const EarlyParts& early)
      : source_(source), next_(payload), left_bytes_(payload_bytes), early_(early) {}

  void AddTo(const Message& message, Arrivals* arrivals) {
    for (const Offer& offer : message.offers) {
      const ExchangePlace place{offer.meeting, offer.exchange_hash};
      Arrival& arrival = (*arrivals)[place];
      arrival.steps.push_back(offer.step);
      arrival.descriptions.push_back(offer.description_hash);
      if (offer.payload != Payload::kFollows && offer.size_bytes != 0) ThrowOtherBytes();
      if (offer.payload == Payload::kFollows) arrival.parts.push_back(Next(offer.size_bytes));
      if (offer.payload == Payload::kCameBefore) arrival.parts.push_back(Before(place));
    }
    if (left_bytes_ != 0) ThrowOtherBytes();
  }

 private:
  Part Next(int64_t size_bytes) {
    if (size_bytes < 0 || size_bytes > left_bytes_) ThrowOtherBytes();
    left_bytes_ -= size_bytes;
    if (!next_) return {source_, "", size_bytes > 0};
    const std::string_view bytes(next_, static_cast<size_t>(size_bytes));
    next_ += size_bytes;
    return {source_, bytes, false};
  }

  Part Before(const ExchangePlace& place) const {
    const auto part = early_.Find(place, source_);
    if (!part) ThrowOtherBytes();
    return *part;
  }

  const int source_;
  const char* next_;
  int64_t left_bytes_;
  const EarlyParts& early_;
};

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

Round ReadRound(const Received& received, const EarlyParts& early, const KnownExchanges& known) {
  Round round;
  for (const std::string_view bytes : received.messages) {
    size_t header_bytes = 0;
    const int source = static_cast<int>(round.messages.size());
    round.messages.push_back(Message::Parse(bytes, known, &header_bytes));
    const auto total_bytes = static_cast<size_t>(round.messages.back().total_bytes);
    if (bytes.size() != (received.are_cut ? header_bytes : total_bytes)) ThrowOtherBytes();
    const char* payload = received.are_cut ? nullptr : bytes.data() + header_bytes;
    OffersOfRank(source, payload, static_cast<int64_t>(total_bytes - header_bytes), early)
        .AddTo(round.messages.back(), &round.arrivals);
  }
  return round;
}

EarlyParts KeepParts(const Arrivals& incomplete, EarlyParts* early) {
  EarlyParts kept;
  for (const auto& [place, arrival] : incomplete) {
    for (const Part& part : arrival.parts) kept.Keep(place, part, early);
  }
  return kept;
}

}  // namespace sok
