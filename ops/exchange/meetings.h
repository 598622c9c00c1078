// SPDX-License-Identifier: Apache-2.0
// Which lookups have begun on this rank, by names that are the same on all ranks, and which of them
// have failed. Sends nothing, and leaves locking to its owner.
#ifndef SOK_OPS_EXCHANGE_MEETINGS_H_
#define SOK_OPS_EXCHANGE_MEETINGS_H_

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
#include "ops/exchange/descriptions.h"
#include "ops/exchange/message.h"

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
struct Ticket {
  Meeting meeting;
  std::string label;      // for messages; one of that label in a step
  int64_t step = 0;       // which step of this rank, counted from 0
  bool is_alone = false;  // begun by eager code
  std::shared_ptr<const Description> description = nullptr;
  std::vector<Meeting> others = {};  // of lookups whose exchanges are parts of those at `meeting`
};

/// The ticket of lookups whose exchanges are made together, at the meeting of the first.
/// `description`: of all of them.
Ticket JoinedTicket(const std::vector<Ticket>& tickets,
                    std::shared_ptr<const Description> description);

struct MeetingFailure {
  ErrorCode code = ErrorCode::kAborted;
  std::string message;
};

/// A rank asks for an exchange by lookup and number, so a step that dies early, or runs other
/// lookups, shifts nothing: whoever waits for it is told that it is over.
class Meetings {
 public:
  Ticket Begin(const LookupCall& call);

  /// Nobody on this rank can ask for an exchange of that lookup any more.
  void End(const Ticket& ticket);

  /// What a step uses fails with it, also what another step began. False: it has used it before. In
  /// what order, may differ from rank to rank.
  bool Use(StepId step_id, const Ticket& ticket, const std::string& exchange);

  /// Fails what the step has begun, uses, or still begins. A step that has begun nothing may be an
  /// op of eager code: fails what that began last.
  void FailStep(StepId step_id, const MeetingFailure& failure);

  /// Fails a lookup, here and, when they are told, on the other ranks.
  void Fail(const Meeting& meeting, const MeetingFailure& failure);

  /// Another rank's failure.
  void Take(int rank, const LookupFailure& failure);

  /// Other ranks wait for a lookup, this one does not; if it never will, they are told.
  void TellIfOver(const Meeting& meeting);

  /// Null: it has not failed.
  const MeetingFailure* FailureOf(const Meeting& meeting) const;

  const std::vector<LookupFailure>& to_tell() const { return to_tell_; }
  void ForgetTold() { to_tell_.clear(); }
  int64_t num_steps() const { return next_step_; }

 private:
  struct Step {
    int64_t number = 0;
    int64_t call = -1;                  // number in the order of calls; -1: none yet
    std::map<std::string, int> counts;  // by lookup
    std::set<Meeting> meetings;         // begun or used
    std::set<std::pair<Meeting, std::string>> exchanges;  // used
    std::optional<MeetingFailure> failure;
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
  Ticket BeginAlone(const LookupCall& call);
  Ticket BeginOrdered(const LookupCall& call, Step* step);
  Ticket BeginCounted(const LookupCall& call, Step* step);
  int64_t NewCall(bool is_alone);
  bool Record(const Meeting& meeting, const MeetingFailure& failure);
  std::string WhyOver(const Meeting& meeting) const;

  std::map<int64_t, Step> steps_;  // by step id, those of late
  std::deque<int64_t> step_ids_;   // in order
  int64_t next_step_ = 0;
  std::map<int64_t, Call> calls_;  // by number, those of late
  int64_t next_call_ = 0;
  std::map<uint64_t, Count> counts_;  // by lookup hash, of lookups that are not ordered
  std::set<Meeting> active_;
  Meeting latest_alone_;
  std::map<Meeting, MeetingFailure> failures_;
  std::deque<Meeting> failed_;  // in order
  std::vector<LookupFailure> to_tell_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_MEETINGS_H_
