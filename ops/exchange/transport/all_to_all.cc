// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/transport/all_to_all.h"

#include <algorithm>
#include <utility>

#include "ops/base/error.h"

namespace sok {
namespace {

// Flags in the first byte of each message of a round.
constexpr char kHasMore = 1;  // its messages did not fit into this round
constexpr char kLeaves = 2;   // it leaves; nothing follows
constexpr char kEnds = 4;     // some rank leaves, and this one has nothing left to send or receive

}  // namespace

AllToAllTransport::AllToAllTransport(const AllToAllOptions& options)
    : options_(options),
      outbox_(static_cast<size_t>(options.num_ranks)),
      readers_(static_cast<size_t>(options.num_ranks)),
      has_left_(static_cast<size_t>(options.num_ranks)) {}

void AllToAllTransport::Send(int destination, Pieces message, std::shared_ptr<const void> memory) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    outbox_[static_cast<size_t>(destination)].emplace_back(std::move(message), std::move(memory));
  }
  changed_.notify_all();
}

void AllToAllTransport::Close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
}

bool AllToAllTransport::HasFrames() const {
  return std::any_of(outbox_.begin(), outbox_.end(),
                     [](const auto& frames) { return !frames.empty(); });
}

bool AllToAllTransport::IsDue() const { return HasFrames() || goes_on_ || is_closing_ || ends_; }

AllToAllTransport::Outgoing AllToAllTransport::Next() {
  const auto heartbeat = std::chrono::duration<double>(options_.heartbeat_seconds);
  const auto gather = std::chrono::duration<double>(options_.gather_seconds);
  std::unique_lock<std::mutex> lock(mutex_);
  const bool is_due = changed_.wait_for(lock, heartbeat, [&] { return IsDue(); });
  if (is_due && !goes_on_ && !is_closing_ && !ends_) {
    changed_.wait_for(lock, gather, [&] { return is_closing_; });
  }
  // One byte of each message holds the flags.
  const auto most_bytes = static_cast<size_t>(options_.most_bytes / options_.num_ranks) - 1;
  Outgoing outgoing;
  std::vector<size_t> flags_at;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    std::deque<Frame>& frames = outbox_[static_cast<size_t>(rank)];
    const size_t begin = outgoing.data.size();
    if (rank != options_.rank) {
      flags_at.push_back(begin);
      size_t num_bytes = 0;
      for (const Frame& frame : frames) num_bytes += frame.num_left();
      num_bytes = std::min(num_bytes, most_bytes);
      outgoing.data.resize(begin + 1 + num_bytes);
      for (char* to = outgoing.data.data() + begin + 1; num_bytes > 0;) {
        const size_t copied = frames.front().CopyTo(to, num_bytes);
        to += copied;
        num_bytes -= copied;
        if (frames.front().num_left() == 0) frames.pop_front();
      }
    }
    outgoing.send_bytes.push_back(static_cast<int64_t>(outgoing.data.size() - begin));
  }
  const char flags = HasFrames()                        ? kHasMore
                     : is_closing_                      ? static_cast<char>(kLeaves | kEnds)
                     : ends_ && !receiver_->IsWaiting() ? kEnds
                                                        : char{0};
  for (const size_t at : flags_at) outgoing.data[at] = flags;
  goes_on_ = flags == kHasMore;
  has_said_end_ = (flags & kEnds) != 0;
  round_began_ = Clock::now().time_since_epoch().count();
  ++num_rounds_;
  return outgoing;
}

bool AllToAllTransport::Take(const std::vector<std::string_view>& received) {
  round_began_ = 0;
  bool has_more = false;
  bool all_end = has_said_end_;
  std::vector<int> leaving;
  for (size_t source = 0; source < received.size(); ++source) {
    if (source == static_cast<size_t>(options_.rank)) continue;
    std::string_view bytes = received[source];
    if (bytes.empty()) Throw(ErrorCode::kIo, "rank ", source, " sent no message in a round");
    const char flags = bytes.front();
    has_more = has_more || (flags & kHasMore) != 0;
    all_end = all_end && (flags & kEnds) != 0;
    if ((flags & kLeaves) != 0) leaving.push_back(static_cast<int>(source));
    bytes.remove_prefix(1);
    readers_[source].Take(bytes, [&](std::string_view message, bool is_cut) {
      receiver_->Receive(static_cast<int>(source), message, is_cut);
    });
  }
  for (const int source : leaving) {
    if (!has_left_[static_cast<size_t>(source)]) receiver_->Left(source);
    has_left_[static_cast<size_t>(source)] = true;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  goes_on_ = goes_on_ || has_more;
  ends_ = ends_ || !leaving.empty();
  return !all_end;
}

double AllToAllTransport::SilentSeconds() const {
  const Clock::rep began = round_began_;
  if (began == 0) return 0.0;
  const Clock::duration passed = Clock::now().time_since_epoch() - Clock::duration(began);
  return std::chrono::duration<double>(passed).count();
}

}  // namespace sok
