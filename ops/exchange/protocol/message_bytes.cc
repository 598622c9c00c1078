// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/protocol/message_bytes.h"

#include <cstring>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr int kBitsOfByte = 7;
constexpr uint64_t kMoreFollow = 0x80;

}  // namespace

void ThrowCutOff() { Throw(ErrorCode::kIo, "a rank's message is cut off"); }

void MessageWriter::Whole(int64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void MessageWriter::Number(int64_t value) {
  // The sign is the lowest bit, so that small negative numbers are short, too.
  uint64_t left = (static_cast<uint64_t>(value) << 1) ^ (value < 0 ? ~uint64_t{0} : 0);
  for (; left >= kMoreFollow; left >>= kBitsOfByte) {
    bytes_.push_back(static_cast<char>((left & (kMoreFollow - 1)) | kMoreFollow));
  }
  bytes_.push_back(static_cast<char>(left));
}

void MessageWriter::Text(std::string_view text) {
  Number(static_cast<int64_t>(text.size()));
  bytes_ += text;
}

std::string_view MessageReader::Take(size_t size) {
  if (size > bytes_.size() - position_) ThrowCutOff();
  position_ += size;
  return bytes_.substr(position_ - size, size);
}

int64_t MessageReader::Whole() {
  int64_t value = 0;
  std::memcpy(&value, Take(sizeof(value)).data(), sizeof(value));
  return value;
}

int64_t MessageReader::Number() {
  uint64_t value = 0;
  for (int shift = 0;; shift += kBitsOfByte) {
    if (shift >= 64) ThrowCutOff();
    const auto byte = static_cast<unsigned char>(Take(1).front());
    value |= (byte & (kMoreFollow - 1)) << shift;
    if (byte < kMoreFollow) break;
  }
  return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

std::string_view MessageReader::Text() { return Take(Count(1)); }

size_t MessageReader::Count(size_t entry_bytes) {
  const auto count = static_cast<uint64_t>(Number());
  if (count > (bytes_.size() - position_) / entry_bytes) ThrowCutOff();
  return static_cast<size_t>(count);
}

}  // namespace sok
