// SPDX-License-Identifier: Apache-2.0
// Encodes numbers and texts in messages, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sok {

class MessageWriter {
 public:
  /// Eight bytes.
  void Whole(int64_t value);
  /// Variable length: one byte for -64 to 63.
  void Number(int64_t value);
  void Text(std::string_view text);

  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

/// All methods throw kIo for malformed bytes.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}

  int64_t Whole();
  int64_t Number();
  std::string_view Text();
  /// The number of entries that follow, each of at least `entry_bytes`.
  size_t Count(size_t entry_bytes);

  size_t position() const { return position_; }

 private:
  std::string_view Take(size_t size);

  const std::string_view bytes_;
  size_t position_ = 0;
};

[[noreturn]] void ThrowCutOff();

}  // namespace sok
