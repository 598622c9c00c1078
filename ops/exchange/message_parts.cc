// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/message_parts.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

namespace sok {

MessageParts::MessageParts(Proposal proposal) : proposal_(std::move(proposal)) { SetNext(); }

void MessageParts::SetNext() {
  part_begin_ += num_bytes();
  send_bytes_.clear();
  pieces_.clear();
  for (Pieces& left : proposal_.pieces) {
    pieces_.push_back(TakeBytes(&left, static_cast<size_t>(proposal_.part_bytes)));
  }
  for (const int64_t bytes : proposal_.send_bytes) {
    const int64_t left = bytes - part_ * proposal_.part_bytes;
    send_bytes_.push_back(std::clamp<int64_t>(left, 0, proposal_.part_bytes));
  }
}

int64_t MessageParts::num_bytes() const {
  return std::accumulate(send_bytes_.begin(), send_bytes_.end(), int64_t{0});
}

bool MessageParts::Take(const std::vector<std::string_view>& part) {
  if (part_ == 0) BeginToTake(part);
  if (num_parts_ == 1) {
    received_.messages = part;
    return true;
  }
  for (size_t rank = 0; rank < part.size(); ++rank) {
    std::vector<char>& message = by_source_[rank];
    const std::string_view kept = part[rank].substr(0, kept_bytes_[rank] - message.size());
    message.insert(message.end(), kept.begin(), kept.end());
  }
  if (++part_ < num_parts_) {
    SetNext();
    return false;
  }
  for (const std::vector<char>& message : by_source_) {
    received_.messages.emplace_back(message.data(), message.size());
  }
  return true;
}

/// From the first part: how many there will be, and what of them.
void MessageParts::BeginToTake(const std::vector<std::string_view>& part) {
  std::vector<MessageSizes> sizes;
  int64_t longest_bytes = 1;
  for (const std::string_view bytes : part) {
    sizes.push_back(MessageSizes::Parse(bytes));
    longest_bytes = std::max(longest_bytes, sizes.back().longest_bytes);
  }
  num_parts_ = (longest_bytes - 1) / proposal_.part_bytes + 1;
  if (num_parts_ > 1) MakeRoom(sizes);
}

/// Where memory is refused, the other ranks send all the same: what follows the messages is taken
/// and thrown away.
void MessageParts::MakeRoom(const std::vector<MessageSizes>& sizes) {
  const auto make_room = [&](int64_t MessageSizes::* bytes) {
    by_source_ = std::vector<std::vector<char>>(sizes.size());
    kept_bytes_.clear();
    for (size_t rank = 0; rank < sizes.size(); ++rank) {
      kept_bytes_.push_back(static_cast<size_t>(sizes[rank].*bytes));
      by_source_[rank].reserve(kept_bytes_[rank]);
    }
  };
  try {
    make_room(&MessageSizes::total_bytes);
  } catch (const std::bad_alloc&) {
    received_.are_cut = true;
    make_room(&MessageSizes::header_bytes);
  }
}

}  // namespace sok
