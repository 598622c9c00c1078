// SPDX-License-Identifier: Apache-2.0
// Messages in a byte stream, each preceded by its size in 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "ops/exchange/transport/transport.h"

namespace sok {

constexpr size_t kFrameHeadBytes = sizeof(uint64_t);

/// A message being written to a stream.
class Frame {
 public:
  Frame(Pieces message, std::shared_ptr<const void> memory);

  size_t num_bytes() const { return num_bytes_; }  // including the head
  size_t num_left() const { return num_left_; }

  /// Copies the next bytes, at most `most`; returns how many.
  size_t CopyTo(char* to, size_t most);

 private:
  size_t num_bytes_;
  size_t num_left_;
  Pieces message_;
  size_t next_piece_ = 0;
  size_t next_byte_ = 0;  // within that piece
  std::shared_ptr<const void> memory_;
};

/// Splits a stream into messages.
class FrameReader {
 public:
  using Deliver = std::function<void(std::string_view message, bool is_cut)>;

  /// Takes the next bytes of the stream, and delivers the messages that they complete, in place if
  /// they came in one piece. is_cut: see Receiver.
  void Take(std::string_view bytes, const Deliver& deliver);

 private:
  void Begin();
  size_t Collect(std::string_view bytes, const Deliver& deliver);

  char head_[kFrameHeadBytes];
  size_t head_bytes_ = 0;  // bytes of head_ received; 0 between messages
  size_t size_ = 0;        // of the message, known once its head is complete
  size_t num_come_ = 0;    // bytes of the message received
  std::unique_ptr<char[]> collected_;
  size_t capacity_ = 0;  // of collected_
};

}  // namespace sok
