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
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "ops/exchange/message.h"

namespace sok {

struct CoordinatorOptions {
  int rank = 0;
  int num_ranks = 1;
  double stall_seconds = 60.0;     // a request that waits longer for another rank fails its step
  double heartbeat_seconds = 0.5;  // how long a rank without requests may keep the others waiting
  double grouping_seconds =
      0.02;  // how long a request waits for the others of its group on this rank
};

/// What became of a request: an error message, or the bytes that all ranks sent to this one.
struct ExchangeResult {
  std::string error;                    // empty: success
  std::vector<char> data;               // by source rank
  std::vector<int64_t> received_bytes;  // [num_ranks]
};

struct ExchangeRequest {
  std::string kind;                 // requests of one kind may be able to go together
  std::string name;                 // the same on all ranks; one pending at a time in a step
  int64_t step_id = 0;              // tells the steps of this rank apart
  std::vector<char> data;           // by destination rank
  std::vector<int64_t> send_bytes;  // [num_ranks]
  std::function<void(ExchangeResult)> done;  // called once, from any thread
};

struct ExchangeCounters {
  int64_t exchanges = 0;          // all-to-alls with data
  int64_t rounds = 0;             // rounds that settled what is ready
  int64_t payload_bytes = 0;      // sent to other ranks
  int64_t negotiation_bytes = 0;  // all else
};

/// Ranks run in rounds, in lockstep. In each, every rank sends every other one what waits on it:
/// which requests, and their bytes (Propose). One all-to-all carries it all. Requests that wait on
/// all ranks are then complete; the others are proposed again in the next round (Complete). The
/// order in which requests are submitted may differ from rank to rank: no order can deadlock.
///
/// Steps are counted on each rank; requests meet those of the same step only. When a step fails on
/// one rank, it fails on all, with that rank's message.
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);

  // --- for the ops of a step, from any thread ---

  void Submit(ExchangeRequest request);

  /// Makes the step fail on all ranks; nothing if it has failed already.
  void FailStep(int64_t step_id, const std::string& message);

  int num_ranks() const { return options_.num_ranks; }
  ExchangeCounters counters() const;

  // --- for the one thread that drives the rounds ---

  /// Waits until there is a reason for a round, and returns what to send, by destination rank.
  struct Proposal {
    std::vector<char> data;
    std::vector<int64_t> send_bytes;  // [num_ranks]
  };
  Proposal Propose();

  /// Takes what all ranks proposed to this one, by source rank; received_bytes is [num_ranks].
  void Complete(const char* data, const std::vector<int64_t>& received_bytes);

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
    Clock::time_point since;
  };
  using Key = std::pair<int64_t, std::string>;  // step, name

  struct Group {
    int64_t step = -1;
    std::set<std::string> names;
  };
  struct Companions {
    std::set<std::string> names;  // expected to come together
    bool is_trial = false;        // they have not yet
  };

  int64_t StepNumber(int64_t step_id);
  bool HasReason(Clock::time_point now) const;
  void WaitForReason(std::unique_lock<std::mutex>* lock);
  std::vector<std::pair<Pending, ExchangeResult>> TakeReady(
      const std::vector<Message>& messages, const std::vector<const char*>& payloads);
  void CheckStalls(const std::vector<Message>& messages);
  void LearnGroups(const std::vector<Key>& ready);
  void LearnGroup(Group group, Group* last);
  std::vector<Pending> TakeFailed(const std::vector<Message>& messages);

  const CoordinatorOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Pending> pending_;
  std::map<int64_t, int64_t> step_numbers_;  // step id -> number, for the steps of late
  int64_t next_step_ = 0;
  std::map<int64_t, std::string> failed_steps_;  // number -> message
  std::vector<StepFailure> failures_to_tell_;
  std::map<std::string, Companions> companions_;  // by name
  std::map<std::string, int> trials_left_;  // how often a name may still be tried in a larger group
  std::map<std::string, Group> last_groups_;  // by kind
  std::vector<Key> proposed_;                 // between Propose and Complete
  bool is_leaving_ = false;
  std::string closed_reason_;  // not empty: closed
  ExchangeCounters counters_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_COORDINATOR_H_
