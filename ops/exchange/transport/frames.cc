// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/transport/frames.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace sok {

Frame::Frame(Pieces message, std::shared_ptr<const void> memory)
    : num_bytes_(kFrameHeadBytes + NumBytes(message)),
      num_left_(num_bytes_),
      message_(std::move(message)),
      memory_(std::move(memory)) {}

size_t Frame::CopyTo(char* to, size_t most) {
  const size_t count = std::min(most, num_left_);
  size_t left = count;
  const size_t num_before = num_bytes_ - num_left_;
  if (num_before < kFrameHeadBytes) {
    const uint64_t size = num_bytes_ - kFrameHeadBytes;
    const size_t of_head = std::min(left, kFrameHeadBytes - num_before);
    std::memcpy(to, reinterpret_cast<const char*>(&size) + num_before, of_head);
    to += of_head;
    left -= of_head;
  }
  while (left > 0) {
    const std::string_view rest = message_[next_piece_].substr(next_byte_);
    const size_t of_piece = std::min(left, rest.size());
    std::memcpy(to, rest.data(), of_piece);
    to += of_piece;
    left -= of_piece;
    next_byte_ += of_piece;
    if (of_piece < rest.size()) continue;
    ++next_piece_;
    next_byte_ = 0;
  }
  num_left_ -= count;
  return count;
}

void FrameReader::Take(std::string_view bytes, const Deliver& deliver) {
  while (!bytes.empty()) {
    if (head_bytes_ < kFrameHeadBytes) {
      const size_t count = std::min(bytes.size(), kFrameHeadBytes - head_bytes_);
      std::memcpy(head_ + head_bytes_, bytes.data(), count);
      head_bytes_ += count;
      bytes.remove_prefix(count);
      if (head_bytes_ < kFrameHeadBytes) return;
      uint64_t size = 0;
      std::memcpy(&size, head_, sizeof(size));
      size_ = static_cast<size_t>(size);
      num_come_ = 0;
      if (bytes.size() < size_) Begin();
    }
    if (!collected_) {
      const std::string_view message = bytes.substr(0, size_);
      bytes.remove_prefix(size_);
      head_bytes_ = 0;
      deliver(message, false);
    } else {
      bytes.remove_prefix(Collect(bytes, deliver));
    }
  }
}

/// Allocates for a message that arrives in several pieces.
void FrameReader::Begin() {
  capacity_ = std::max<size_t>(size_, 1);
  collected_.reset(new (std::nothrow) char[capacity_]);
  if (collected_) return;
  capacity_ = Receiver::kCutBytes;
  collected_.reset(new char[capacity_]);
}

size_t FrameReader::Collect(std::string_view bytes, const Deliver& deliver) {
  const size_t count = std::min(bytes.size(), size_ - num_come_);
  if (num_come_ < capacity_) {
    std::memcpy(collected_.get() + num_come_, bytes.data(), std::min(count, capacity_ - num_come_));
  }
  num_come_ += count;
  if (num_come_ == size_) {
    const std::unique_ptr<char[]> message = std::move(collected_);
    head_bytes_ = 0;
    deliver({message.get(), std::min(size_, capacity_)}, capacity_ < size_);
  }
  return count;
}

}  // namespace sok
