// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/message.h"

#include <cstring>

#include "ops/base/error.h"

namespace sok {
namespace {

void Put(std::string* bytes, int64_t value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void Put(std::string* bytes, const Meeting& meeting) {
  Put(bytes, static_cast<int64_t>(meeting.lookup_hash));
  Put(bytes, meeting.number);
}

void Put(std::string* bytes, const std::string& text) {
  Put(bytes, static_cast<int64_t>(text.size()));
  *bytes += text;
}

constexpr size_t kOfferBytes = 7 * sizeof(int64_t);
constexpr size_t kFailureBytes = 3 * sizeof(int64_t);  // and the text
constexpr size_t kHeaderBytesPlace = 2 * sizeof(int64_t);

[[noreturn]] void ThrowCutOff() { Throw(ErrorCode::kIo, "a rank's message is cut off"); }

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  int64_t Int() {
    int64_t value = 0;
    std::memcpy(&value, Take(sizeof(value)).data(), sizeof(value));
    return value;
  }

  Meeting TheMeeting() {
    const auto lookup_hash = static_cast<uint64_t>(Int());
    return {lookup_hash, Int()};
  }

  /// How many entries of at least `entry_bytes` follow.
  size_t Count(size_t entry_bytes) {
    const auto count = static_cast<uint64_t>(Int());
    if (count > (bytes_.size() - position_) / entry_bytes) ThrowCutOff();
    return static_cast<size_t>(count);
  }

  Payload WherePayload() {
    const int64_t value = Int();
    if (value < 0 || value > static_cast<int64_t>(Payload::kCameBefore)) ThrowCutOff();
    return static_cast<Payload>(value);
  }

  std::string Text() { return std::string(Take(Count(1))); }

  size_t position() const { return position_; }

 private:
  std::string_view Take(size_t size) {
    if (size > bytes_.size() - position_) ThrowCutOff();
    position_ += size;
    return bytes_.substr(position_ - size, size);
  }

  const std::string_view bytes_;
  size_t position_ = 0;
};

MessageSizes ReadSizes(Reader* reader) {
  MessageSizes sizes;
  sizes.longest_bytes = reader->Int();
  sizes.total_bytes = reader->Int();
  sizes.header_bytes = reader->Int();
  const bool are_in_order = 0 < sizes.header_bytes && sizes.header_bytes <= sizes.total_bytes &&
                            sizes.total_bytes <= sizes.longest_bytes;
  if (!are_in_order) ThrowCutOff();
  return sizes;
}

}  // namespace

MessageSizes MessageSizes::Parse(std::string_view bytes) {
  Reader reader(bytes);
  return ReadSizes(&reader);
}

std::string Message::Serialize() const {
  std::string bytes;
  Put(&bytes, longest_bytes);
  Put(&bytes, total_bytes);
  Put(&bytes, int64_t{0});  // of the header: below
  Put(&bytes, int64_t{is_leaving});
  Put(&bytes, num_steps);
  Put(&bytes, waits_for);
  Put(&bytes, static_cast<int64_t>(offers.size()));
  for (const Offer& offer : offers) {
    Put(&bytes, offer.meeting);
    Put(&bytes, static_cast<int64_t>(offer.exchange_hash));
    Put(&bytes, offer.step);
    Put(&bytes, offer.size_bytes);
    Put(&bytes, static_cast<int64_t>(offer.payload));
    Put(&bytes, static_cast<int64_t>(offer.description_hash));
  }
  Put(&bytes, static_cast<int64_t>(failures.size()));
  for (const LookupFailure& failure : failures) {
    Put(&bytes, failure.meeting);
    Put(&bytes, failure.message);
  }
  Put(&bytes, static_cast<int64_t>(descriptions.size()));
  for (const std::string& description : descriptions) Put(&bytes, description);
  const auto header_bytes = static_cast<int64_t>(bytes.size());
  std::memcpy(bytes.data() + kHeaderBytesPlace, &header_bytes, sizeof(header_bytes));
  return bytes;
}

Message Message::Parse(std::string_view bytes, size_t* header_bytes) {
  Reader reader(bytes);
  const MessageSizes sizes = ReadSizes(&reader);
  Message message;
  message.longest_bytes = sizes.longest_bytes;
  message.total_bytes = sizes.total_bytes;
  message.is_leaving = reader.Int() != 0;
  message.num_steps = reader.Int();
  message.waits_for = reader.Text();
  message.offers.resize(reader.Count(kOfferBytes));
  for (Offer& offer : message.offers) {
    offer.meeting = reader.TheMeeting();
    offer.exchange_hash = static_cast<uint64_t>(reader.Int());
    offer.step = reader.Int();
    offer.size_bytes = reader.Int();
    offer.payload = reader.WherePayload();
    offer.description_hash = static_cast<uint64_t>(reader.Int());
  }
  message.failures.resize(reader.Count(kFailureBytes));
  for (LookupFailure& failure : message.failures) {
    failure.meeting = reader.TheMeeting();
    failure.message = reader.Text();
  }
  message.descriptions.resize(reader.Count(sizeof(int64_t)));
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
