// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/meetings.h"

#include <utility>

namespace sok {
namespace {

constexpr size_t kRemembered = 1024;  // steps, calls and failures

uint64_t OrderedHash(const std::string& label) { return NameHash(label) | 1; }
uint64_t CountedHash(const std::string& lookup) { return NameHash(lookup) & ~uint64_t{1}; }
bool IsOrdered(const Meeting& meeting) { return (meeting.lookup_hash & 1) != 0; }

/// The name of one of several lookups of a step that have the same.
std::string Label(const std::string& lookup, int how_manieth) {
  return how_manieth == 0 ? lookup : lookup + "#" + std::to_string(how_manieth);
}

}  // namespace

Ticket JoinedTicket(const std::vector<Ticket>& tickets,
                    std::shared_ptr<const Description> description) {
  Ticket joined = tickets.front();
  joined.label += " and " + std::to_string(tickets.size() - 1) + " more";
  joined.description = std::move(description);
  for (size_t i = 1; i < tickets.size(); ++i) joined.others.push_back(tickets[i].meeting);
  return joined;
}

Meetings::Step& Meetings::StepOf(int64_t step_id) {
  const auto [entry, is_new] = steps_.try_emplace(step_id);
  if (is_new) {
    entry->second.number = next_step_++;
    step_ids_.push_back(step_id);
    if (step_ids_.size() > kRemembered) {
      steps_.erase(step_ids_.front());
      step_ids_.pop_front();
    }
  }
  return entry->second;
}

Ticket Meetings::Begin(const LookupCall& call) {
  Ticket ticket;
  if (!call.step_id) {
    ticket = BeginAlone(call);
    ticket.description = call.description;
    return ticket;
  }
  Step& step = StepOf(*call.step_id);
  ticket = call.is_ordered ? BeginOrdered(call, &step) : BeginCounted(call, &step);
  ticket.description = call.description;
  active_.insert(ticket.meeting);
  step.meetings.insert(ticket.meeting);
  if (step.failure) Fail(ticket.meeting, *step.failure);
  return ticket;
}

Ticket Meetings::BeginAlone(const LookupCall& call) {
  const int64_t number = NewCall(true);
  calls_.at(number).labels.push_back(call.lookup);
  latest_alone_ = {OrderedHash(call.lookup), number};
  active_.insert(latest_alone_);
  return {latest_alone_, call.lookup, next_step_++, true};
}

Ticket Meetings::BeginOrdered(const LookupCall& call, Step* step) {
  if (step->call < 0) step->call = NewCall(false);
  const std::string label = Label(call.lookup, step->counts[call.lookup]++);
  const auto known = calls_.find(step->call);
  if (known != calls_.end()) known->second.labels.push_back(label);
  return {{OrderedHash(label), step->call}, label, step->number, false};
}

Ticket Meetings::BeginCounted(const LookupCall& call, Step* step) {
  const uint64_t hash = CountedHash(call.lookup);
  Count& count = counts_[hash];
  count.lookup = call.lookup;
  const std::string label = Label(call.lookup, step->counts[call.lookup]++);
  return {{hash, count.begun++}, label, step->number, false};
}

int64_t Meetings::NewCall(bool is_alone) {
  calls_[next_call_].is_alone = is_alone;
  if (calls_.size() > kRemembered) calls_.erase(calls_.begin());
  return next_call_++;
}

void Meetings::End(const Ticket& ticket) { active_.erase(ticket.meeting); }

bool Meetings::Use(StepId step_id, const Ticket& ticket, const std::string& exchange) {
  if (!step_id || ticket.is_alone) return true;
  Step& step = StepOf(*step_id);
  step.meetings.insert(ticket.meeting);
  if (step.failure) Fail(ticket.meeting, *step.failure);
  return step.exchanges.emplace(ticket.meeting, exchange).second;
}

void Meetings::FailStep(StepId step_id, const MeetingFailure& failure) {
  bool has_begun = false;
  if (step_id) {
    Step& step = StepOf(*step_id);
    if (step.failure) return;
    step.failure = failure;
    has_begun = !step.meetings.empty();
    for (const Meeting& meeting : step.meetings) Fail(meeting, failure);
  }
  if (!has_begun && active_.count(latest_alone_) != 0) Fail(latest_alone_, failure);
}

/// False: it has failed before.
bool Meetings::Record(const Meeting& meeting, const MeetingFailure& failure) {
  if (!failures_.try_emplace(meeting, failure).second) return false;
  failed_.push_back(meeting);
  if (failed_.size() > kRemembered) {
    failures_.erase(failed_.front());
    failed_.pop_front();
  }
  return true;
}

void Meetings::Fail(const Meeting& meeting, const MeetingFailure& failure) {
  if (Record(meeting, failure))
    to_tell_.push_back({meeting, "failed in this step: " + failure.message});
}

void Meetings::Take(int rank, const LookupFailure& failure) {
  Record(failure.meeting,
         {ErrorCode::kAborted, "rank " + std::to_string(rank) + " " + failure.message});
}

void Meetings::TellIfOver(const Meeting& meeting) {
  if (active_.count(meeting) != 0) return;
  const std::string why = WhyOver(meeting);
  if (why.empty()) return;
  if (Record(meeting, {ErrorCode::kAborted, "this rank " + why}))
    to_tell_.push_back({meeting, why});
}

/// Why this rank will never come to that meeting; empty: it may.
std::string Meetings::WhyOver(const Meeting& meeting) const {
  static const std::string kEnded =
      " has ended there without it: an error or the end of its data came between, or the ranks run "
      "different code";
  if (!IsOrdered(meeting)) {
    const auto count = counts_.find(meeting.lookup_hash);
    if (count == counts_.end() || meeting.number >= count->second.begun) return "";
    return "is past it: step " + std::to_string(meeting.number) + " of " + count->second.lookup +
           kEnded;
  }
  if (meeting.number >= next_call_) return "";
  const std::string number = "call " + std::to_string(meeting.number);
  const auto call = calls_.find(meeting.number);
  if (call == calls_.end()) return "is past it: " + number + kEnded;
  // What a function has not begun yet may still come.
  if (!call->second.is_alone && meeting.number + 1 == next_call_) return "";
  std::string labels;
  for (const std::string& label : call->second.labels) {
    if (OrderedHash(label) == meeting.lookup_hash) return "is past it: " + number + kEnded;
    labels += (labels.empty() ? "" : ", ") + label;
  }
  return "looks up " + labels + " in " + number +
         ": all ranks must make the same calls in the same order";
}

const MeetingFailure* Meetings::FailureOf(const Meeting& meeting) const {
  const auto failure = failures_.find(meeting);
  return failure == failures_.end() ? nullptr : &failure->second;
}

}  // namespace sok
