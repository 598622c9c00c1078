// SPDX-License-Identifier: Apache-2.0
// Matches the requests of this rank's lookups with those of the other ranks. Knows neither
// TensorFlow nor how messages travel.
#ifndef SOK_OPS_EXCHANGE_RENDEZVOUS_COORDINATOR_H_
#define SOK_OPS_EXCHANGE_RENDEZVOUS_COORDINATOR_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
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
  double tick_seconds = 0.1;    // between two looks for requests that wait too long
};

struct ExchangeCounters {
  int64_t exchanges = 0;          // requests that all ranks have answered
  int64_t payload_bytes = 0;      // of them, sent to other ranks
  int64_t negotiation_bytes = 0;  // all else that was sent
};

/// A request is sent to the other ranks at once, led by its lookup and exchange, and is complete
/// when each of them has sent its request of the same name: an all-to-all of those ranks that ask
/// for it, in whatever order each rank asks. What comes before this rank asks waits in the receive
/// buffer. So no order of requests can deadlock, and nothing but lookups has to be alike on ranks.
///
/// Requests meet by lookup: its name and how often it has begun or, in ordered code, the number of
/// the call (CollectiveRegistry). A lookup that fails on one rank fails on all, with that rank's
/// message, and so does one that other ranks are past.
class Coordinator : public Receiver {
 public:
  /// transport: nobody else holds it when the coordinator is destroyed.
  Coordinator(const CoordinatorOptions& options, std::shared_ptr<Transport> transport);
  ~Coordinator() override;

  // --- for the ops of a step, from any thread ---

  /// Where the exchanges of a lookup will meet those of the other ranks. Each Begin has its End.
  Collective Begin(const LookupCall& call);
  void End(const Collective& collective);

  void Submit(ExchangeRequest request);

  /// Makes a step fail on all ranks: see CollectiveRegistry. Nothing if it has failed already.
  void FailStep(StepId step_id, ErrorCode code, const std::string& message);
  void FailLookup(const Collective& collective, ErrorCode code, const std::string& message);

  int rank() const { return options_.rank; }
  int num_ranks() const { return options_.num_ranks; }
  ExchangeCounters counters() const;

  // --- for the process ---

  /// A graph of this rank has a lookup of that name. Ranks that wait for each other with lookups
  /// that the other one's graphs do not have fail at once.
  void NoteLookup(const std::string& name);

  /// From now on all requests fail with `reason`: the ranks cannot talk any more.
  void Abort(const std::string& reason);

  /// Tells the other ranks that this one leaves. Their requests fail.
  void Leave();

  /// A rank has left, or Abort.
  bool is_closed() const;

  // --- for the transport ---

  void Receive(int source, std::string_view message, bool is_cut) override;
  void Left(int source) override;
  bool IsWaiting() const override;

 private:
  using Clock = std::chrono::steady_clock;

  void ReceiveRequest(int source, std::string_view message, bool is_cut);
  void Finish(ReceiveBuffer::Entry entry);
  ExchangeResult ResultOf(const ReceiveBuffer::Entry& entry);
  std::string WhyNotTogether(const ReceiveBuffer::Entry& entry) const;
  void SendToAll(const std::string& message);

  // The thread that fails requests and looks for those that wait too long.
  void Run();
  void TellAndFail(std::unique_lock<std::mutex>* lock);
  void Inspect(Clock::time_point now);
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
  std::vector<RankStatus> statuses_;  // of the ranks, as last told
  RankStatus told_status_;
  Clock::time_point status_told_;
  std::string gave_up_on_;     // what it waited for too long, if nothing was requested since
  std::string closed_reason_;  // not empty: closed
  bool is_stopped_ = false;
  ExchangeCounters counters_;
  std::vector<HeaderReader> readers_;  // by source rank, each of the thread that delivers it
  std::thread thread_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_RENDEZVOUS_COORDINATOR_H_
