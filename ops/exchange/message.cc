// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/message.h"

#include <cstring>

#include "ops/base/error.h"

namespace sok {
namespace {

void Put(std::string* bytes, int64_t value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

constexpr size_t kOfferBytes = 3 * sizeof(int64_t);
constexpr size_t kFailureBytes = 2 * sizeof(int64_t);  // and the text

class Reader {
 public:
  Reader(const char* data, size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}

  int64_t Int() {
    int64_t value = 0;
    std::memcpy(&value, Take(sizeof(value)), sizeof(value));
    return value;
  }

  /// How many entries of at least `entry_bytes` follow.
  size_t Count(size_t entry_bytes) {
    const auto count = static_cast<uint64_t>(Int());
    if (count > (size_bytes_ - position_) / entry_bytes) ThrowCutOff();
    return static_cast<size_t>(count);
  }

  std::string Text() {
    const size_t size = Count(1);
    return std::string(Take(size), size);
  }

  size_t position() const { return position_; }

 private:
  [[noreturn]] static void ThrowCutOff() { Throw(ErrorCode::kIo, "a rank's message is cut off"); }

  const char* Take(size_t size) {
    if (size > size_bytes_ - position_) ThrowCutOff();
    position_ += size;
    return data_ + position_ - size;
  }

  const char* const data_;
  const size_t size_bytes_;
  size_t position_ = 0;
};

}  // namespace

std::string Message::Serialize() const {
  std::string bytes;
  Put(&bytes, is_leaving ? 1 : 0);
  Put(&bytes, next_step);
  Put(&bytes, static_cast<int64_t>(offers.size()));
  for (const Offer& offer : offers) {
    Put(&bytes, offer.step);
    Put(&bytes, static_cast<int64_t>(offer.name_hash));
    Put(&bytes, offer.size_bytes);
  }
  Put(&bytes, static_cast<int64_t>(failures.size()));
  for (const StepFailure& failure : failures) {
    Put(&bytes, failure.step);
    Put(&bytes, static_cast<int64_t>(failure.message.size()));
    bytes += failure.message;
  }
  return bytes;
}

Message Message::Parse(const char* data, size_t size_bytes, size_t* message_bytes) {
  Reader reader(data, size_bytes);
  Message message;
  message.is_leaving = reader.Int() != 0;
  message.next_step = reader.Int();
  message.offers.resize(reader.Count(kOfferBytes));
  for (Offer& offer : message.offers) {
    offer.step = reader.Int();
    offer.name_hash = static_cast<uint64_t>(reader.Int());
    offer.size_bytes = reader.Int();
  }
  message.failures.resize(reader.Count(kFailureBytes));
  for (StepFailure& failure : message.failures) {
    failure.step = reader.Int();
    failure.message = reader.Text();
  }
  *message_bytes = reader.position();
  return message;
}

uint64_t NameHash(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace sok
