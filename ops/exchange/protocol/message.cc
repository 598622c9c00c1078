// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/protocol/message.h"

#include <utility>

#include "ops/exchange/protocol/message_bytes.h"

namespace sok {
namespace {

constexpr size_t kMostNumbers = size_t{1} << 16;  // further headers are written in full

MessageWriter Begin(MessageKind kind) {
  MessageWriter writer;
  writer.Number(static_cast<int64_t>(kind));
  return writer;
}

MessageReader After(std::string_view message, MessageKind kind) {
  MessageReader reader(message);
  if (reader.Number() != static_cast<int64_t>(kind)) ThrowCutOff();
  return reader;
}

/// Twice the number; plus one, and followed by `repeat`, in ordered code.
void WriteNumbers(const CollectiveId& collective, MessageWriter* writer) {
  writer->Number(2 * collective.number + (collective.is_ordered ? 1 : 0));
  if (collective.is_ordered) writer->Number(collective.repeat);
}

void ReadNumbers(MessageReader* reader, CollectiveId* collective) {
  const int64_t number = reader->Number();
  collective->number = number >> 1;
  collective->is_ordered = (number & 1) != 0;
  collective->repeat = collective->is_ordered ? reader->Number() : 0;
}

}  // namespace

MessageKind KindOf(std::string_view message) {
  const int64_t kind = MessageReader(message).Number();
  if (kind < 0 || kind > static_cast<int64_t>(MessageKind::kLastError)) ThrowCutOff();
  return static_cast<MessageKind>(kind);
}

std::string LookupFailure::Serialize() const {
  MessageWriter writer = Begin(MessageKind::kFailure);
  writer.Whole(static_cast<int64_t>(collective.lookup_hash));
  WriteNumbers(collective, &writer);
  writer.Text(message);
  return std::move(writer.bytes());
}

LookupFailure LookupFailure::Parse(std::string_view message) {
  MessageReader reader = After(message, MessageKind::kFailure);
  LookupFailure failure;
  failure.collective.lookup_hash = static_cast<uint64_t>(reader.Whole());
  ReadNumbers(&reader, &failure.collective);
  failure.message = reader.Text();
  return failure;
}

std::string RankStatus::Serialize() const {
  MessageWriter writer = Begin(MessageKind::kStatus);
  writer.Number(num_steps);
  writer.Text(waits_for);
  return std::move(writer.bytes());
}

RankStatus RankStatus::Parse(std::string_view message) {
  MessageReader reader = After(message, MessageKind::kStatus);
  const int64_t num_steps = reader.Number();
  return {num_steps, std::string(reader.Text())};
}

std::string LastError::Serialize() const {
  MessageWriter writer = Begin(MessageKind::kLastError);
  writer.Text(message);
  return std::move(writer.bytes());
}

LastError LastError::Parse(std::string_view message) {
  return {std::string(After(message, MessageKind::kLastError).Text())};
}

/// Writes the known number plus one; or 0 and the definition: the new number plus one (0 for none),
/// hashes and texts. Then the numbers of the collective.
HeaderWriter::Header HeaderWriter::Write(const RequestHeader& header) {
  const uint64_t description_hash = header.description ? header.description->hash : 0;
  const auto key =
      std::make_tuple(header.collective.lookup_hash, header.exchange, description_hash);
  if (known_.size() < kMostNumbers || known_.count(key) != 0) {
    const auto [entry, is_new] = known_.try_emplace(key, Known{by_number_.size() + 1, false});
    if (is_new) by_number_.push_back(&entry->second);
  }
  const auto known = known_.find(key);
  const size_t number = known == known_.end() ? 0 : known->second.number;
  const bool is_sent = number > 0 && known->second.is_sent;
  MessageWriter writer = Begin(MessageKind::kRequest);
  writer.Number(is_sent ? static_cast<int64_t>(number) : 0);
  if (!is_sent) {
    writer.Number(static_cast<int64_t>(number));
    writer.Whole(static_cast<int64_t>(header.collective.lookup_hash));
    writer.Whole(static_cast<int64_t>(header.exchange));
    header.lookup.Write(&writer);
    writer.Text(header.description ? header.description->text : "");
  }
  WriteNumbers(header.collective, &writer);
  return {std::move(writer.bytes()), is_sent ? 0 : number};
}

void HeaderWriter::MarkSent(const Header& header) {
  if (header.learned > 0) by_number_[header.learned - 1]->is_sent = true;
}

RequestHeader HeaderReader::Read(std::string_view* message) {
  MessageReader reader = After(*message, MessageKind::kRequest);
  RequestHeader header;
  const int64_t number = reader.Number();
  if (number == 0) {
    const int64_t learned = reader.Number();
    if (learned < 0 || learned > static_cast<int64_t>(kMostNumbers)) ThrowCutOff();
    header.collective.lookup_hash = static_cast<uint64_t>(reader.Whole());
    header.exchange = static_cast<uint64_t>(reader.Whole());
    header.lookup = LookupName::Read(&reader);
    header.description = std::make_shared<const Description>(std::string(reader.Text()));
    if (learned > 0) known_[static_cast<size_t>(learned)] = header;
  } else {
    const auto known = known_.find(static_cast<size_t>(number));
    if (known == known_.end()) ThrowCutOff();
    header = known->second;
  }
  ReadNumbers(&reader, &header.collective);
  message->remove_prefix(reader.position());
  return header;
}

}  // namespace sok
