// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/message.h"

#include <cstring>
#include <utility>

#include "ops/exchange/message_bytes.h"

namespace sok {
namespace {

constexpr size_t kFewestOfferBytes = 4;
constexpr size_t kFewestFailureBytes = sizeof(int64_t) + 2;
constexpr size_t kHeaderBytesPlace = 2 * sizeof(int64_t);

// What an offer begins with: where its payload is and, times these, 0 or one more than the number
// of a known exchange.
constexpr int64_t kPayloads = 3;

MessageSizes ReadSizes(MessageReader* reader) {
  MessageSizes sizes;
  sizes.longest_bytes = reader->Whole();
  sizes.total_bytes = reader->Whole();
  sizes.header_bytes = reader->Whole();
  const bool are_in_order = 0 < sizes.header_bytes && sizes.header_bytes <= sizes.total_bytes &&
                            sizes.total_bytes <= sizes.longest_bytes;
  if (!are_in_order) ThrowCutOff();
  return sizes;
}

// Without overflow: a wrong number is any number.
int64_t Sum(int64_t left, int64_t right) {
  return static_cast<int64_t>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
}
int64_t Difference(int64_t left, int64_t right) {
  return static_cast<int64_t>(static_cast<uint64_t>(left) - static_cast<uint64_t>(right));
}

void Write(const Meeting& meeting, MessageWriter* writer) {
  writer->Whole(static_cast<int64_t>(meeting.lookup_hash));
  writer->Number(meeting.number);
}

Meeting ReadMeeting(MessageReader* reader) {
  const auto lookup_hash = static_cast<uint64_t>(reader->Whole());
  return {lookup_hash, reader->Number()};
}

/// num_steps: of the message.
void Write(const Offer& offer, int64_t num_steps, const KnownExchanges& known,
           MessageWriter* writer) {
  const auto payload = static_cast<int64_t>(offer.payload);
  const auto index = known.Find(KindOf(offer));
  if (index) {
    writer->Number(payload + kPayloads * static_cast<int64_t>(*index + 1));
    writer->Number(Difference(offer.meeting.number, known.At(*index)->number));
  } else {
    writer->Number(payload);
    Write(offer.meeting, writer);
    writer->Whole(static_cast<int64_t>(offer.exchange_hash));
    writer->Whole(static_cast<int64_t>(offer.description_hash));
  }
  writer->Number(Difference(num_steps, offer.step));
  writer->Number(offer.size_bytes);
}

Offer ReadOffer(int64_t num_steps, const KnownExchanges& known, MessageReader* reader) {
  Offer offer;
  const int64_t first = reader->Number();
  if (first < 0) ThrowCutOff();
  offer.payload = static_cast<Payload>(first % kPayloads);
  if (first >= kPayloads) {
    const auto* exchange = known.At(static_cast<size_t>(first / kPayloads - 1));
    if (!exchange) ThrowCutOff();
    offer.meeting = {exchange->kind.lookup_hash, Sum(exchange->number, reader->Number())};
    offer.exchange_hash = exchange->kind.exchange_hash;
    offer.description_hash = exchange->kind.description_hash;
  } else {
    offer.meeting = ReadMeeting(reader);
    offer.exchange_hash = static_cast<uint64_t>(reader->Whole());
    offer.description_hash = static_cast<uint64_t>(reader->Whole());
  }
  offer.step = Difference(num_steps, reader->Number());
  offer.size_bytes = reader->Number();
  return offer;
}

}  // namespace

ExchangeKind KindOf(const Offer& offer) {
  return {offer.meeting.lookup_hash, offer.exchange_hash, offer.description_hash};
}

MessageSizes MessageSizes::Parse(std::string_view bytes) {
  MessageReader reader(bytes);
  return ReadSizes(&reader);
}

void SetSizes(int64_t longest_bytes, int64_t total_bytes, std::string* message) {
  const int64_t sizes[] = {longest_bytes, total_bytes};
  std::memcpy(message->data(), sizes, sizeof(sizes));
}

std::string Message::Serialize(const KnownExchanges& known) const {
  MessageWriter writer;
  for (size_t place = 0; place <= kHeaderBytesPlace; place += sizeof(int64_t)) writer.Whole(0);
  writer.Number(is_leaving ? 1 : 0);
  writer.Number(num_steps);
  writer.Text(waits_for);
  writer.Number(static_cast<int64_t>(offers.size()));
  for (const Offer& offer : offers) Write(offer, num_steps, known, &writer);
  writer.Number(static_cast<int64_t>(failures.size()));
  for (const LookupFailure& failure : failures) {
    Write(failure.meeting, &writer);
    writer.Text(failure.message);
  }
  writer.Number(static_cast<int64_t>(descriptions.size()));
  for (const std::string& description : descriptions) writer.Text(description);
  std::string bytes = std::move(writer.bytes());
  const auto header_bytes = static_cast<int64_t>(bytes.size());
  std::memcpy(bytes.data() + kHeaderBytesPlace, &header_bytes, sizeof(header_bytes));
  return bytes;
}

Message Message::Parse(std::string_view bytes, const KnownExchanges& known, size_t* header_bytes) {
  MessageReader reader(bytes);
  const MessageSizes sizes = ReadSizes(&reader);
  Message message;
  message.total_bytes = sizes.total_bytes;
  message.is_leaving = reader.Number() != 0;
  message.num_steps = reader.Number();
  message.waits_for = reader.Text();
  message.offers.resize(reader.Count(kFewestOfferBytes));
  for (Offer& offer : message.offers) offer = ReadOffer(message.num_steps, known, &reader);
  message.failures.resize(reader.Count(kFewestFailureBytes));
  for (LookupFailure& failure : message.failures) {
    failure.meeting = ReadMeeting(&reader);
    failure.message = reader.Text();
  }
  message.descriptions.resize(reader.Count(1));
  for (std::string& description : message.descriptions) description = reader.Text();
  *header_bytes = reader.position();
  if (static_cast<int64_t>(*header_bytes) != sizes.header_bytes) ThrowCutOff();
  return message;
}

uint64_t NameHash(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace sok
