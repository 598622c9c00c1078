// SPDX-License-Identifier: Apache-2.0
// Which lookups have begun on this rank, by names that are the same on all ranks, and which of them
// have failed. Sends nothing, and leaves locking to its owner.
#ifndef SOK_OPS_EXCHANGE_RENDEZVOUS_COLLECTIVE_REGISTRY_H_
#define SOK_OPS_EXCHANGE_RENDEZVOUS_COLLECTIVE_REGISTRY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/base/error.h"
#include "ops/exchange/protocol/descriptions.h"
#include "ops/exchange/protocol/message.h"

namespace sok {

/// What the framework calls the step or the function call that an op is part of; none, or a number
/// that nothing else has: eager code.
using StepId = std::optional<int64_t>;

/// A lookup that begins, as its rank sees it.
struct LookupCall {
  std::string lookup;       // its name, the same on all ranks
  StepId step_id;           // of what it is part of; none: it is a call of its own, in eager code
  bool is_ordered = false;  // ranks meet by the order of calls, not by how often this lookup began
  std::shared_ptr<const Description> description = nullptr;  // the same on all ranks
};

/// A lookup that has begun: where its exchanges meet those of the other ranks.
struct Collective {
  CollectiveId id;
  std::string label;      // for messages; one of that label in a step
  int64_t step = 0;       // which step of this rank, counted from 0
  bool is_alone = false;  // begun by eager code
  std::shared_ptr<const Description> description = nullptr;
};

struct CollectiveFailure {
  ErrorCode code = ErrorCode::kAborted;
  std::string message;
};

/// A rank asks for an exchange by lookup and number, so a step that dies early, or runs other
/// lookups, shifts nothing: whoever waits for it is told that it is over.
class CollectiveRegistry {
 public:
  Collective Begin(const LookupCall& call);

  /// Nobody on this rank can ask for an exchange of that lookup any more.
  void End(const Collective& collective);

  /// Counts the uses of an exchange, which a function of the backward pass repeats when it is
  /// called again. The n-th use on one rank meets the n-th use on the others; a fast rank may
  /// already be in its next one. A step that fails also fails the collectives that it uses,
  /// including those begun by another step. Returns the number of earlier uses, or nullopt for a
  /// second use in one step, where ranks have no common order.
  std::optional<int64_t> Use(StepId step_id, const Collective& collective,
                             const std::string& exchange);

  /// Fails what the step has begun, uses, or still begins. A step that has begun nothing may be an
  /// op of eager code: fails what that began last.
  void FailStep(StepId step_id, const CollectiveFailure& failure);

  /// Fails a lookup, here and, when they are told, on the other ranks.
  void Fail(const CollectiveId& collective, const CollectiveFailure& failure);

  /// Another rank's failure.
  void Take(int rank, const LookupFailure& failure);

  /// Fails a lookup that another rank waits for and this one will never come to.
  void FailIfOver(const CollectiveId& collective);

  /// As above, where no graph of this rank has the lookup.
  void FailAsUnknown(const CollectiveId& collective, const std::string& why);

  /// A graph of this rank has a lookup of that name.
  void Note(const std::string& lookup);
  /// Whether one has; true for lookups of ordered code, which are not noted. label: of the
  /// collective.
  bool Knows(const CollectiveId& collective, const std::string& label) const;

  /// Null: it has not failed.
  const CollectiveFailure* FailureOf(const CollectiveId& collective) const;

  bool has_news() const { return !newly_failed_.empty(); }
  /// A lookup that has failed, and the rank that told it; kOwn: this one has failed it.
  static constexpr int kOwn = -1;
  struct Failed {
    CollectiveId collective;
    CollectiveFailure why;
    int source;
  };
  /// Those since the last call.
  std::vector<Failed> TakeNewlyFailed() { return std::exchange(newly_failed_, {}); }
  /// Those that other ranks have yet to be told of.
  std::vector<LookupFailure> TakeToTell() { return std::exchange(to_tell_, {}); }
  int64_t num_steps() const { return next_step_; }

 private:
  struct Step {
    int64_t number = 0;
    int64_t call = -1;                   // number in the order of calls; -1: none yet
    std::map<std::string, int> counts;   // by lookup
    std::set<CollectiveId> collectives;  // begun or used
    std::set<std::pair<CollectiveId, std::string>> exchanges;  // used
    std::optional<CollectiveFailure> failure;
  };
  struct Call {
    std::vector<std::string> labels;
    bool is_alone = false;
  };
  struct Count {
    std::string lookup;
    int64_t begun = 0;
  };

  Step& StepOf(int64_t step_id);
  Collective BeginAlone(const LookupCall& call);
  Collective BeginOrdered(const LookupCall& call, Step* step);
  Collective BeginCounted(const LookupCall& call, Step* step);
  int64_t NewCall(bool is_alone);
  bool Record(const CollectiveId& collective, const CollectiveFailure& failure, int source = kOwn);
  std::string WhyOver(const CollectiveId& collective) const;

  std::map<int64_t, Step> steps_;  // by step id, those of late
  std::deque<int64_t> step_ids_;   // in order
  int64_t next_step_ = 0;
  std::map<int64_t, Call> calls_;  // by number, those of late
  int64_t next_call_ = 0;
  std::map<uint64_t, Count> counts_;  // by lookup hash, of lookups that are not ordered
  std::set<std::string> noted_;       // lookups of this rank's graphs
  std::map<CollectiveId, std::map<std::string, int64_t>> active_;  // uses, by exchange
  CollectiveId latest_alone_;
  std::map<CollectiveId, CollectiveFailure> failures_;
  std::deque<CollectiveId> failed_;  // in order
  std::vector<Failed> newly_failed_;
  std::vector<LookupFailure> to_tell_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_RENDEZVOUS_COLLECTIVE_REGISTRY_H_
