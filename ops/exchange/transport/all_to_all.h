// SPDX-License-Identifier: Apache-2.0
// The transport over a collective all-to-all of bytes, such as Horovod's, which the caller runs.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ops/exchange/transport/frames.h"
#include "ops/exchange/transport/transport.h"

namespace sok {

struct AllToAllOptions {
  int rank = 0;
  int num_ranks = 1;
  int64_t most_bytes = int64_t{1} << 26;  // sent or received by a rank in a round
  double heartbeat_seconds = 0.5;         // how long an idle rank delays a round
  // A round takes milliseconds; the lookups of a step arrive within less than one.
  double gather_seconds = 0.0005;
};

/// All ranks make rounds in lockstep, each a call of the all-to-all. A rank begins a round when it
/// has something to send, when another rank has announced more, and from time to time as a
/// heartbeat. Once a rank has announced that it leaves, rounds continue until no rank has anything
/// to send or waits for a message; then they end for all. All messages sent before therefore
/// arrive, including those between other ranks.
class AllToAllTransport : public Transport {
 public:
  explicit AllToAllTransport(const AllToAllOptions& options);

  void Start(Receiver* receiver) override { receiver_ = receiver; }
  void Send(int destination, Pieces message, std::shared_ptr<const void> memory) override;
  void Close() override;
  double SilentSeconds() const override;
  std::string failure() const override { return ""; }

  // --- for the one thread that calls the all-to-all ---

  struct Outgoing {
    std::vector<char> data;           // by destination rank
    std::vector<int64_t> send_bytes;  // [num_ranks]
  };
  /// Waits until a round is due, and returns the bytes that this rank sends in it.
  Outgoing Next();

  /// Takes the bytes of a round by source rank, and delivers the messages in them. Returns false if
  /// the rounds have ended. Throws kIo for malformed bytes.
  bool Take(const std::vector<std::string_view>& received);

  int64_t num_rounds() const { return num_rounds_; }

 private:
  using Clock = std::chrono::steady_clock;

  bool IsDue() const;
  bool HasFrames() const;

  const AllToAllOptions options_;
  Receiver* receiver_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<Frame>> outbox_;  // by destination rank
  bool is_closing_ = false;
  bool goes_on_ = false;  // a rank's messages did not fit into the last round
  bool ends_ = false;     // another rank has announced that it leaves

  // Used by the calling thread only.
  std::vector<FrameReader> readers_;  // by source rank
  std::vector<bool> has_left_;
  bool has_said_end_ = false;               // in the current round
  std::atomic<Clock::rep> round_began_{0};  // 0: no round is running
  std::atomic<int64_t> num_rounds_{0};
};

}  // namespace sok
