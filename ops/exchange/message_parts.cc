// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/message_parts.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "ops/base/error.h"

namespace sok {

MessageParts::MessageParts(Proposal proposal, int64_t most_bytes)
    : proposal_(std::move(proposal)),
      part_bytes_(most_bytes / static_cast<int64_t>(proposal_.send_bytes.size())) {
  SetNext();
}

void MessageParts::SetNext() {
  send_bytes_.clear();
  for (const int64_t bytes : proposal_.send_bytes) {
    send_bytes_.push_back(
        std::clamp<int64_t>(bytes - part_ * part_bytes_, int64_t{0}, part_bytes_));
  }
  data_.clear();
  if (send_bytes_ == proposal_.send_bytes) return;
  data_.reserve(static_cast<size_t>(num_bytes()));
  const char* message = proposal_.data.data();
  for (size_t rank = 0; rank < send_bytes_.size(); ++rank) {
    const char* part = message + std::min(part_ * part_bytes_, proposal_.send_bytes[rank]);
    data_.insert(data_.end(), part, part + send_bytes_[rank]);
    message += proposal_.send_bytes[rank];
  }
}

const char* MessageParts::data() const {
  return send_bytes_ == proposal_.send_bytes ? proposal_.data.data() : data_.data();
}

int64_t MessageParts::num_bytes() const {
  return std::accumulate(send_bytes_.begin(), send_bytes_.end(), int64_t{0});
}

/// From the first part: by the longest of all messages.
void MessageParts::CountParts(const char* data, const std::vector<int64_t>& received_bytes) {
  int64_t longest_bytes = 1;
  for (const int64_t bytes : received_bytes) {
    int64_t longest_of_sender = 0;
    if (bytes < static_cast<int64_t>(sizeof(longest_of_sender))) {
      Throw(ErrorCode::kIo, "a rank's message is cut off");
    }
    std::memcpy(&longest_of_sender, data, sizeof(longest_of_sender));
    longest_bytes = std::max(longest_bytes, longest_of_sender);
    data += bytes;
  }
  num_parts_ = (longest_bytes - 1) / part_bytes_ + 1;
}

bool MessageParts::Take(const char* data, const std::vector<int64_t>& received_bytes) {
  if (num_parts_ == 0) CountParts(data, received_bytes);
  if (num_parts_ == 1) {
    received_ = data;
    received_bytes_ = received_bytes;
    return true;
  }
  by_source_.resize(received_bytes.size());
  for (size_t rank = 0; rank < received_bytes.size(); ++rank) {
    by_source_[rank].insert(by_source_[rank].end(), data, data + received_bytes[rank]);
    data += received_bytes[rank];
  }
  if (++part_ < num_parts_) {
    SetNext();
    return false;
  }
  received_bytes_.clear();
  for (std::vector<char>& message : by_source_) {
    joined_.insert(joined_.end(), message.begin(), message.end());
    received_bytes_.push_back(static_cast<int64_t>(message.size()));
    message = {};
  }
  received_ = joined_.data();
  return true;
}

}  // namespace sok
