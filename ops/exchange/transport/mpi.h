// SPDX-License-Identifier: Apache-2.0
// The transport by MPI's messages, within a host and between hosts.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ops/exchange/transport/frames.h"
#include "ops/exchange/transport/mpi_port.h"
#include "ops/exchange/transport/process_watch.h"
#include "ops/exchange/transport/transport.h"

namespace sok {

struct MpiOptions {
  int rank = 0;
  std::vector<int64_t> process_ids;  // [num_ranks]; 0: of a rank on another host
  double heartbeat_seconds = 0.5;
  size_t most_bytes = size_t{1} << 22;  // of one MPI message, which is copied
};

/// One thread of this transport makes all calls of MPI. MPI waits by asking again and again: after
/// a message the thread does so for some microseconds, and then sleeps in between, for longer the
/// longer nothing comes.
class MpiTransport : public Transport {
 public:
  MpiTransport(const MpiOptions& options, std::unique_ptr<MpiPort> port);
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  void Start(Receiver* receiver) override;
  void Send(int destination, Pieces message, std::shared_ptr<const void> memory) override;
  /// Returns when the other ranks know, or after some seconds. MPI may end afterwards.
  void Close() override;
  double SilentSeconds() const override;
  std::string failure() const override;

  /// Ranks that have neither left nor given a sign of life for longer than this.
  std::vector<int> RanksSilentFor(double seconds) const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Sent {
    MpiBuffer bytes;
    std::unique_ptr<MpiOperation> operation;
  };
  struct Received {
    MpiBuffer bytes;
    std::unique_ptr<MpiOperation> operation;
  };
  /// All but the outbox is for the transport's thread.
  struct Peer {
    std::deque<Frame> outbox;  // guarded by mutex_
    std::deque<Frame> frames;  // taken from there
    std::deque<Sent> sent;     // in order
    FrameReader reader;
    std::unique_ptr<ProcessWatch> process;  // null on another host
    std::atomic<Clock::rep> heard{0};       // when its last message came
    std::atomic<bool> has_left{false};
    bool knows_of_leaving = false;  // that this rank has left
    bool has_been_told = false;     // that this rank leaves
    bool awaits_answer = false;     // it has left, and waits until this rank says it knows
  };

  void Run();
  bool TakeOutboxes();
  bool SendAll(bool is_heartbeat);
  void SendNext(int destination, int flags);
  bool ReceiveAll();
  void Deliver(const Received& received);
  void Rest(bool has_moved);
  bool IsOnItsWay() const;
  void CheckProcesses();
  bool HasFinished();
  MpiBuffer TakeBuffer();
  void Keep(MpiBuffer buffer);

  const MpiOptions options_;
  const std::unique_ptr<MpiPort> port_;
  Receiver* receiver_ = nullptr;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for this one
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_outgoing_ = false;
  bool is_closing_ = false;
  bool is_stopped_ = false;
  bool has_ended_ = false;  // the thread calls MPI no more
  std::string failure_;

  // Used by the thread only.
  std::deque<Received> received_;  // in the order in which they began
  std::vector<MpiBuffer> spare_;
  Clock::time_point moved_;  // when something last came or went
};

}  // namespace sok
