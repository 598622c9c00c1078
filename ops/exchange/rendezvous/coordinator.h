// SPDX-License-Identifier: Apache-2.0
// Matches the requests of this rank's lookups with those of other ranks. Independent of TensorFlow
// and of the transport.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ops/exchange/protocol/message.h"
#include "ops/exchange/rendezvous/collective_registry.h"
#include "ops/exchange/rendezvous/exchange_request.h"
#include "ops/exchange/rendezvous/receive_buffer.h"
#include "ops/exchange/transport/transport.h"

namespace sok {

struct CoordinatorOptions {
  int rank = 0;
  int num_ranks = 1;
  double stall_seconds = 60.0;  // a request that waits longer for another rank fails its step
  double tick_seconds = 0.1;    // between checks for requests that wait too long
};

struct ExchangeCounters {
  int64_t exchanges = 0;          // requests completed by all ranks
  int64_t payload_bytes = 0;      // bytes of these sent to other ranks
  int64_t negotiation_bytes = 0;  // all other bytes sent
};

/// A request is sent to the other ranks at once, with a header of lookup and exchange, and is
/// complete when each of them has sent its request of the same name: an all-to-all of the ranks, in
/// whatever order each rank makes its requests. Data that arrives before this rank's request waits
/// in the receive buffer. No order of requests can therefore deadlock, and ranks need to agree on
/// nothing but lookups.
///
/// Requests match by lookup: its name and how often it has begun or, in ordered code, the number of
/// the call (CollectiveRegistry). A lookup that fails on one rank fails on all, with that rank's
/// message, and so does one that another rank has already passed.
class Coordinator : public Receiver {
 public:
  /// transport: must have no other owner when the coordinator is destroyed.
  Coordinator(const CoordinatorOptions& options, std::shared_ptr<Transport> transport);
  ~Coordinator() override;

  // --- for the ops of a step, from any thread ---

  /// Begins a lookup and returns its identity across ranks. Each Begin needs an End.
  Collective Begin(const LookupCall& call);
  void End(const Collective& collective);

  void Submit(ExchangeRequest request);
  /// As Submit without `done`: waits, and returns what each rank has sent. Throws its error.
  std::vector<std::string> Exchange(ExchangeRequest request);

  /// Fails a step on all ranks: see CollectiveRegistry. No effect if it has failed already.
  void FailStep(StepId step_id, ErrorCode code, const std::string& message);
  void FailLookup(const Collective& collective, ErrorCode code, const std::string& message);

  int rank() const { return options_.rank; }
  int num_ranks() const { return options_.num_ranks; }
  ExchangeCounters counters() const;

  // --- for the process ---

  /// Records that a graph of this rank has the lookup. Ranks fail at once if they wait for each
  /// other in lookups that the other's graphs lack.
  void NoteLookup(const LookupName& lookup);

  /// Fails all requests from now on with `reason`: the ranks can no longer communicate.
  void Abort(const std::string& reason);

  /// Tells the other ranks that this one leaves, which fails their requests, and its last error.
  void Leave();

  /// Whether a rank has left, or Abort was called.
  bool is_closed() const;

  // --- for the transport ---

  void Receive(int source, std::string_view message, bool is_cut) override;
  void Left(int source) override;
  bool IsWaiting() const override;

 private:
  using Clock = std::chrono::steady_clock;

  void ReceiveRequest(int source, std::string_view message, bool is_cut);
  void Finish(ReceiveBuffer::Entry entry);
  void FailRequest(const ExchangeRequest& request, ErrorCode code, const std::string& message);
  ExchangeResult ResultOf(const ReceiveBuffer::Entry& entry);
  std::string WhyNotTogether(const ReceiveBuffer::Entry& entry) const;
  void SendToAll(const std::string& message);

  // The thread that fails requests and checks for those that wait too long.
  void Run();
  void TellAndFail(std::unique_lock<std::mutex>* lock);
  void Inspect(Clock::time_point now);
  void FailUnevenSessions(Clock::time_point now);
  void TellStatus(Clock::time_point now, std::unique_lock<std::mutex>* lock);
  std::string Missing(const ReceiveBuffer::Entry& entry, double waited) const;
  std::string WhyNever(const ReceiveBuffer::Entry& entry, Clock::time_point now) const;

  const CoordinatorOptions options_;
  std::shared_ptr<Transport> transport_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  CollectiveRegistry registry_;
  ReceiveBuffer buffer_;
  HeaderWriter headers_;
  std::vector<RankStatus> statuses_;  // by rank, as last received
  RankStatus told_status_;
  Clock::time_point status_told_;
  std::string gave_up_on_;     // the request that timed out, if none was made since
  std::string closed_reason_;  // not empty if closed
  std::string last_error_;     // of this rank's exchanges or steps, if none has succeeded since
  std::vector<std::string> last_errors_;  // by rank, as received from those that leave
  bool is_stopped_ = false;
  ExchangeCounters counters_;
  std::vector<HeaderReader> readers_;  // by source rank, each used by its delivering thread
  std::thread thread_;
};

}  // namespace sok
