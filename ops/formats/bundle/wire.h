// SPDX-License-Identifier: Apache-2.0
// Numbers and strings as protocol buffers and sorted tables store them.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/base/error.h"

namespace sok {

/// Reads from the begin of its bytes on; all methods throw kDataLoss where these end too early.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  std::string_view rest() const { return rest_; }
  bool at_end() const { return rest_.empty(); }

  std::string_view Bytes(uint64_t count) {
    if (count > rest_.size()) Throw(ErrorCode::kDataLoss, "its bytes end early");
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  /// A little-endian number.
  uint64_t Fixed(size_t num_bytes) {
    uint64_t number = 0;
    size_t shift = 0;
    for (const char byte : Bytes(num_bytes)) {
      number |= uint64_t{static_cast<unsigned char>(byte)} << shift;
      shift += 8;
    }
    return number;
  }

  uint64_t Varint() {
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(Bytes(1)[0]);
      number |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return number;
    }
    Throw(ErrorCode::kDataLoss, "it has a number of more than 64 bits");
  }

 private:
  std::string_view rest_;
};

/// One field of a protocol buffer's message: a number, or bytes.
struct WireField {
  uint64_t number = 0;
  std::string_view bytes;
};

/// Calls use(id, field) for the fields of a message.
template <typename Use>
void ForEachField(std::string_view message, const Use& use) {
  constexpr unsigned kKindBits = 3, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
  for (WireReader reader(message); !reader.at_end();) {
    const uint64_t tag = reader.Varint();
    WireField field;
    switch (tag & ((1u << kKindBits) - 1)) {
      case 0:
        field.number = reader.Varint();
        break;
      case kFixed64:
        field.number = reader.Fixed(8);
        break;
      case kFixed32:
        field.number = reader.Fixed(4);
        break;
      case kBytes:
        field.bytes = reader.Bytes(reader.Varint());
        break;
      default:
        Throw(ErrorCode::kDataLoss, "a field has an unknown kind");
    }
    use(tag >> kKindBits, field);
  }
}

}  // namespace sok
