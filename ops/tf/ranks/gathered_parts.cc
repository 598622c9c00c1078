// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/ranks/gathered_parts.h"

#include <algorithm>
#include <cstring>

namespace sok {
namespace {

constexpr int64_t kRoundBytes = 16 << 20;  // of all ranks together: rank 0 holds several copies

}  // namespace

void GatheredParts::Send(const char* data, size_t num_bytes) {
  const auto units = static_cast<size_t>(kRoundBytes / communicator_.num_ranks()) / sizeof(int64_t);
  const size_t most = std::max<size_t>(1, units) * sizeof(int64_t);
  for (size_t first = 0; first < num_bytes; first += most)
    Round(/*has_more=*/true, data + first, std::min(most, num_bytes - first), nullptr);
}

void GatheredParts::EndSending() {
  while (Round(/*has_more=*/false, nullptr, 0, nullptr)) {
  }
}

void GatheredParts::Receive(const Use& use) {
  while (Round(/*has_more=*/false, nullptr, 0, use)) {
  }
}

/// Runs one round; returns whether some rank has more.
bool GatheredParts::Round(bool has_more, const char* data, size_t num_bytes, const Use& use) {
  std::vector<std::string> texts(static_cast<size_t>(communicator_.num_ranks()),
                                 std::string(1, has_more ? 1 : 0));
  texts[0].append(data, num_bytes);
  bool is_more_to_come = false;
  int64_t rank = 0;
  for (const std::string& part : communicator_.Exchange(std::move(texts))) {
    is_more_to_come = is_more_to_come || part.at(0) != 0;
    if (part.size() > 1) use(rank, part.data() + 1, part.size() - 1);
    ++rank;
  }
  return is_more_to_come;
}

void GatheredRows::Begin(size_t column, int64_t width) {
  if (rank_ == 0) return sink_->Begin(column, width);
  for (int64_t sender = 1; sender < rank_; ++sender) parts_.EndSending();
}

char* GatheredRows::Buffer(size_t num_bytes) {
  if (rank_ == 0) return sink_->Buffer(num_bytes);
  buffer_.resize(num_bytes);
  return buffer_.data();
}

void GatheredRows::Append(size_t num_bytes) {
  if (rank_ == 0) return sink_->Append(num_bytes);
  parts_.Send(buffer_.data(), num_bytes);
}

void GatheredRows::End() {
  const int64_t num_ranks = communicator_.num_ranks();
  for (int64_t sender = std::max<int64_t>(1, rank_); sender < num_ranks; ++sender) {
    if (rank_ > 0) {
      parts_.EndSending();
      continue;
    }
    parts_.Receive([&](int64_t, const char* data, size_t num_bytes) {
      std::memcpy(sink_->Buffer(num_bytes), data, num_bytes);
      sink_->Append(num_bytes);
    });
  }
  if (rank_ == 0) sink_->End();
}

}  // namespace sok
