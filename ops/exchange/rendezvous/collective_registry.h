// SPDX-License-Identifier: Apache-2.0
// The lookups that have begun on this rank, under names that are the same on all ranks, and those
// that have failed. Sends nothing; locking is up to its owner.
#pragma once

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
#include "ops/exchange/protocol/lookup_name.h"
#include "ops/exchange/protocol/message.h"

namespace sok {

/// The framework's id of the step or function call that an op belongs to; none, or a unique number,
/// in eager code.
using StepId = std::optional<int64_t>;

/// A lookup that begins, as described by its rank.
struct LookupCall {
  LookupName lookup;
  StepId step_id;           // of the step or call; none: a call of its own, in eager code
  bool is_ordered = false;  // ranks match by the order of calls, not by the count of this lookup
  std::shared_ptr<const Description> description = nullptr;  // the same on all ranks
};

/// A lookup that has begun: identifies its exchanges on all ranks.
struct Collective {
  CollectiveId id;
  LookupName lookup;
  int64_t number_in_step = 0;  // of lookups of this name before it in the step
  int64_t step = 0;            // step of this rank, counted from 0
  bool is_alone = false;       // begun by eager code
  std::shared_ptr<const Description> description = nullptr;

  /// For messages; unique in a step.
  std::string Text() const;
};

struct CollectiveFailure {
  ErrorCode code = ErrorCode::kAborted;
  std::string message;
};

/// Exchanges are identified by lookup and number. A step that fails early or runs other lookups
/// therefore shifts nothing, and ranks that wait for its lookups are told that it has ended.
class CollectiveRegistry {
 public:
  Collective Begin(const LookupCall& call);

  /// After this, nothing on this rank requests exchanges of the lookup any more.
  void End(const Collective& collective);

  /// Counts the uses of an exchange, which a backward function repeats when it is called again. The
  /// n-th use on one rank matches the n-th use on the others; a fast rank may already be in its
  /// next one. A step that fails also fails the collectives that it uses, including those begun by
  /// another step. Returns the number of earlier uses, or nullopt for a second use in one step,
  /// where ranks have no common order.
  std::optional<int64_t> Use(StepId step_id, const Collective& collective,
                             const std::string& exchange);

  /// Fails the lookups that the step has begun, uses, or will begin. A step that has begun none may
  /// be an op of eager code: fails the latest eager lookup.
  void FailStep(StepId step_id, const CollectiveFailure& failure);

  /// Fails a lookup on this rank and, once they are told, on the others. They are told once, also
  /// of a failure that another rank caused: a third one may have all parts but this rank's.
  void Fail(const CollectiveId& collective, const CollectiveFailure& failure);

  /// Records another rank's failure.
  void Take(int rank, const LookupFailure& failure);

  /// Fails a lookup that another rank waits for, or has failed, if this one will never reach it.
  void FailIfOver(const CollectiveId& collective);

  /// As above, if no graph of this rank has the lookup.
  void FailAsUnknown(const CollectiveId& collective, const std::string& why);

  /// Records that a graph of this rank has the lookup, in each of its sessions.
  void Note(const LookupName& lookup) { noted_.emplace(lookup.graph, lookup.name); }
  /// Whether a graph of this rank has the lookup; true in ordered code, whose are not recorded.
  bool Knows(const CollectiveId& collective, const LookupName& lookup) const;

  /// Null if it has not failed.
  const CollectiveFailure* FailureOf(const CollectiveId& collective) const;

  bool has_news() const { return !newly_failed_.empty(); }
  /// A failed lookup, and the rank that reported it; kOwn: this rank.
  static constexpr int kOwn = -1;
  struct Failed {
    CollectiveId collective;
    CollectiveFailure why;
    int source;
  };
  /// Failures since the last call.
  std::vector<Failed> TakeNewlyFailed() { return std::exchange(newly_failed_, {}); }
  /// Failures that other ranks have not been told of yet.
  std::vector<LookupFailure> TakeToTell() { return std::exchange(to_tell_, {}); }
  int64_t num_steps() const { return next_step_; }

 private:
  /// A step may be a loop over a whole data set: it keeps what has not ended, and counts.
  struct Step {
    int64_t number = 0;
    int64_t call = -1;  // number in the order of calls; -1: none yet
    bool has_begun = false;
    std::map<uint64_t, int64_t> counts;                        // by lookup hash
    std::set<CollectiveId> collectives;                        // begun or used, until they end
    std::set<std::pair<CollectiveId, std::string>> exchanges;  // used, of these
    std::optional<CollectiveFailure> failure;
    std::string cause;  // the message of the first failed lookup that has ended
  };
  struct Count {
    LookupName lookup;
    int64_t begun = 0;
  };
  struct Call {
    std::map<uint64_t, Count> counts;  // by lookup hash
    bool is_alone = false;
  };
  struct Active {
    std::map<std::string, int64_t> uses;  // by exchange
    std::set<int64_t> step_ids;           // that began or use it
  };

  Step& StepOf(int64_t step_id);
  /// The step, which the collective belongs to from now on.
  Step& Join(int64_t step_id, const CollectiveId& collective);
  Collective BeginAlone(const LookupCall& call);
  Collective BeginOrdered(const LookupCall& call, Step* step);
  Collective BeginCounted(const LookupCall& call, Step* step);
  int64_t NewCall(bool is_alone);
  struct Recorded {
    CollectiveFailure why;
    bool is_told;  // to other ranks, by this one
  };
  Recorded& Record(const CollectiveId& collective, const CollectiveFailure& failure,
                   int source = kOwn);
  void FailAndTell(const CollectiveId& collective, const CollectiveFailure& failure,
                   const std::string& told);
  std::string WhyOver(const CollectiveId& collective) const;

  std::map<int64_t, Step> steps_;  // by step id, recent ones
  std::deque<int64_t> step_ids_;   // in order
  int64_t next_step_ = 0;
  std::map<int64_t, Call> calls_;  // by number, recent ones
  int64_t next_call_ = 0;
  std::map<uint64_t, Count> counts_;  // by lookup hash, for lookups that are not ordered
  std::set<std::pair<int64_t, std::string>> noted_;  // {graph, name} of lookups of this rank
  std::map<CollectiveId, Active> active_;
  CollectiveId latest_alone_;
  std::map<CollectiveId, Recorded> failures_;
  std::deque<CollectiveId> failed_;  // in order
  std::vector<Failed> newly_failed_;
  std::vector<LookupFailure> to_tell_;
};

}  // namespace sok
