// SPDX-License-Identifier: Apache-2.0
// Joins the requests of many lookups into few all-to-all exchanges. Knows neither TensorFlow nor
// Horovod: whoever drives it moves the bytes.
#ifndef SOK_OPS_EXCHANGE_COORDINATOR_H_
#define SOK_OPS_EXCHANGE_COORDINATOR_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/exchange/arrivals.h"
#include "ops/exchange/companions.h"
#include "ops/exchange/descriptions.h"
#include "ops/exchange/early_parts.h"
#include "ops/exchange/exchange_request.h"
#include "ops/exchange/exchange_trace.h"
#include "ops/exchange/known_exchanges.h"
#include "ops/exchange/meetings.h"
#include "ops/exchange/message.h"
#include "ops/exchange/met_steps.h"
#include "ops/exchange/proposal.h"

namespace sok {

struct CoordinatorOptions {
  int rank = 0;
  int num_ranks = 1;
  double stall_seconds = 60.0;     // a request that waits longer for another rank fails its step
  double heartbeat_seconds = 0.5;  // how long a rank without requests may keep the others waiting
  double grouping_seconds =
      0.02;  // how long a request waits for the others of its group on this rank
  int64_t most_bytes = int64_t{1} << 26;  // that a rank sends or receives in one part of a round
};

struct ExchangeCounters {
  int64_t exchanges = 0;          // all-to-alls with data
  int64_t rounds = 0;             // rounds that settled what is ready
  int64_t payload_bytes = 0;      // of tables, sent to other ranks
  int64_t dense_bytes = 0;        // sent to them for sums of what is no table's
  int64_t negotiation_bytes = 0;  // all else
};

/// Ranks run in rounds, in lockstep. In each, every rank sends every other one what waits on it:
/// which requests, and the bytes of those that it has not sent yet (Propose). One all-to-all
/// carries it all. Requests that wait on all ranks are then complete; the others are proposed again
/// in the next round, and what has come for them is kept (Complete). The order in which requests
/// are submitted may differ from rank to rank: no order can deadlock.
///
/// Requests meet by lookup: its name and how often it has begun or, in ordered code, the number of
/// the call (Meetings). A lookup that fails on one rank fails on all, with that rank's message, and
/// so does one that other ranks are past. Two lookups of one step meet two of one step.
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);

  // --- for the ops of a step, from any thread ---

  /// Where the exchanges of a lookup will meet those of the other ranks. Each Begin has its End.
  Ticket Begin(const LookupCall& call);
  void End(const Ticket& ticket);

  void Submit(ExchangeRequest request);
  /// As Submit, but wakes nobody: true where there may be a reason for a round now, and the caller
  /// runs it or calls Recheck.
  bool SubmitQuietly(ExchangeRequest request);

  /// Makes a step fail on all ranks: see Meetings. Nothing if it has failed already.
  void FailStep(StepId step_id, ErrorCode code, const std::string& message);
  void FailLookup(const Ticket& ticket, ErrorCode code, const std::string& message);

  int rank() const { return options_.rank; }
  int num_ranks() const { return options_.num_ranks; }
  ExchangeCounters counters() const;
  ExchangeTrace& trace() { return trace_; }

  // --- for who drives the rounds, one thread at a time ---

  /// How whoever sends wants the bytes.
  enum class Layout { kJoined, kPieces };

  /// Waits until there is a reason for a round, and returns what to send.
  Proposal Propose(Layout layout = Layout::kJoined);

  /// The two steps of Propose. AwaitReason also returns after Wake, and may be called beside a
  /// round that another thread drives.
  void AwaitReason();
  Proposal ProposeNow(Layout layout);

  /// Whether there is a reason for a round: a request, the end of rounds, or that none has been for
  /// heartbeat_seconds.
  bool IsDue() const;
  void Wake();
  void Recheck() { changed_.notify_all(); }  // AwaitReason looks again

  /// Takes what all ranks proposed to this one. Where there was no memory for it, requests that all
  /// ranks have sent fail.
  void Complete(const Received& received);

  /// From now on all requests fail with `reason`: the ranks cannot talk any more.
  void Abort(const std::string& reason);

  /// The next round says that this rank leaves; rounds end for all with it.
  void Leave();

  /// True when rounds have ended: a rank has left, or Abort.
  bool is_closed() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    ExchangeRequest request;
    Outgoing outgoing;  // what it sends
    Clock::time_point since;
    bool is_told = false;        // to the other ranks
    bool is_sent = false;        // to them, with its data
    bool all_have_come = false;  // all ranks have offered it
  };
  using Key = std::pair<int64_t, std::string>;  // step of this rank, name in the step
  using Ready = std::vector<std::pair<Pending, ExchangeResult>>;

  bool HasReason(Clock::time_point now) const;
  bool IsDue(Clock::time_point now) const;
  Clock::time_point Heartbeat() const;
  Clock::time_point NextRepeat() const;
  Payload PayloadOf(const Pending& pending) const;
  void SetProposed();
  Proposal BuildProposal(Layout layout);
  std::string WaitsFor() const;
  void Settle(Round* round, std::vector<Pending>* failed, Ready* ready);
  std::vector<Pending> TakeFailed();
  void CheckJoined(const std::vector<Message>& messages);
  void CheckStalls(const std::vector<Message>& messages);
  Ready TakeReady(Arrivals* arrivals);
  ExchangeResult ResultOf(const Arrival& arrival, const Pending& pending);
  ExchangeResult FailForMemory(const Ticket& ticket);
  void Count(const Ready& ready);

  const CoordinatorOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point last_round_ = Clock::now();  // when its message was made
  bool is_woken_ = false;
  bool is_dozing_ = false;  // AwaitReason looks again when it is told to
  std::map<Key, Pending> pending_;
  std::string gave_up_on_;  // what it waited for too long, if nothing has been asked for since
  Meetings meetings_;
  Companions companions_;
  Descriptions descriptions_;
  std::vector<Key> proposed_;  // between Propose and Complete
  int num_repeats_ = 0;        // proposals in a row with nothing that had not been told
  EarlyParts early_;           // of the thread that drives
  KnownExchanges known_;       // changed by that thread
  MetSteps met_steps_;
  bool is_leaving_ = false;
  std::string closed_reason_;  // not empty: closed
  ExchangeCounters counters_;
  ExchangeTrace trace_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_COORDINATOR_H_
