// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/coordinator.h"

#include <algorithm>
#include <new>
#include <set>

#include "ops/exchange/missing_ranks.h"

namespace sok {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kLongWaitSeconds = 1.0;  // after which a rank says what it waits for

/// Where steps, or what ranks say of the lookup (`difference`), do not match.
MeetingFailure WhyNotTogether(const std::string& difference) {
  if (difference.empty()) {
    return {ErrorCode::kAborted,
            "the ranks run it together with different lookups: all ranks must run the same lookups "
            "in a step"};
  }
  return {ErrorCode::kInvalidArgument, "the ranks disagree: " + difference +
                                           "; all ranks must make the same tables and layers in "
                                           "the same order"};
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options) : options_(options) {}

Ticket Coordinator::Begin(const LookupCall& call) {
  std::lock_guard<std::mutex> lock(mutex_);
  return meetings_.Begin(call);
}

void Coordinator::End(const Ticket& ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  meetings_.End(ticket);
}

void Coordinator::Submit(ExchangeRequest request) {
  if (SubmitQuietly(std::move(request))) Recheck();
}

bool Coordinator::SubmitQuietly(ExchangeRequest request) {
  const std::string name = ExchangeName(request);
  Outgoing outgoing = OutgoingOf(&request);
  ErrorCode code = ErrorCode::kAborted;
  std::string failure;
  bool is_reason = false;  // for a round; whoever runs them looks at all requests, now and then
  bool is_asleep = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool is_first = meetings_.Use(request.step_id, request.ticket, request.exchange);
    const MeetingFailure* failed = meetings_.FailureOf(request.ticket.meeting);
    const Key key{request.ticket.step, name};
    if (!closed_reason_.empty()) {
      failure = closed_reason_;
    } else if (failed) {
      code = failed->code;
      failure = failed->message;
    } else if (!is_first || pending_.count(key) != 0) {
      failure =
          "was asked for twice in one step: a lookup cannot stand in a loop of control flow v1, "
          "nor can a function take two gradients through one branch or nested function";
    } else {
      const auto place =
          pending_.emplace(key, Pending{std::move(request), std::move(outgoing), Clock::now()});
      const ExchangeRequest& mine = place.first->second.request;
      gave_up_on_.clear();
      const std::set<std::string>* companions = companions_.Of(name);
      is_reason =
          mine.is_alone || pending_.size() == 1 ||
          (companions && companions->size() <=
                             pending_.size() + companions_.Exchanged(key.first, mine.kind).size());
    }
    is_reason = is_reason || !meetings_.to_tell().empty();
    is_asleep = is_dozing_;
  }
  if (is_asleep) Recheck();
  if (!failure.empty()) request.done(FailedExchange(code, "exchange " + name + ": " + failure));
  return is_reason;
}

void Coordinator::FailStep(StepId step_id, ErrorCode code, const std::string& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_reason_.empty()) return;
  meetings_.FailStep(step_id, {code, message});
  changed_.notify_all();
}

void Coordinator::FailLookup(const Ticket& ticket, ErrorCode code, const std::string& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_reason_.empty()) return;
  meetings_.Fail(ticket.meeting, {code, message});
  changed_.notify_all();
}

ExchangeCounters Coordinator::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

/// What the other ranks may want to know of this one when they wait for it.
std::string Coordinator::WaitsFor() const {
  const double long_wait = std::min(kLongWaitSeconds, options_.stall_seconds / 4);
  const Pending* longest = nullptr;
  for (const auto& [key, pending] : pending_) {
    if (!longest || pending.since < longest->since) longest = &pending;
  }
  const bool is_long = longest && Seconds(Clock::now() - longest->since).count() > long_wait;
  return is_long ? ExchangeName(longest->request) : gave_up_on_;
}

Proposal Coordinator::Propose(Layout layout) {
  AwaitReason();
  return ProposeNow(layout);
}

Proposal Coordinator::ProposeNow(Layout layout) {
  std::lock_guard<std::mutex> lock(mutex_);
  last_round_ = Clock::now();
  trace_.Leave();
  try {
    return BuildProposal(layout);
  } catch (const std::bad_alloc&) {  // the other ranks wait for this one in the round
    for (const auto& [key, pending] : pending_) {
      meetings_.Fail(pending.request.ticket.meeting,
                     {ErrorCode::kOutOfMemory, "out of memory for what goes to other ranks"});
    }
    return BuildProposal(layout);
  }
}

/// Nothing is sent twice. Much data is sent when all ranks have come: other ranks, which would keep
/// it, may take their time.
Payload Coordinator::PayloadOf(const Pending& pending) const {
  if (pending.is_sent) return Payload::kCameBefore;
  const bool is_much = pending.request.is_patient && !pending.outgoing.pieces.empty();
  return is_much && !pending.all_have_come ? Payload::kWillFollow : Payload::kFollows;
}

/// They are on their way.
void Coordinator::SetProposed() {
  bool is_repeat = true;
  for (const Key& key : proposed_) {
    Pending& pending = pending_.at(key);
    const Payload payload = PayloadOf(pending);
    is_repeat = is_repeat && pending.is_told && payload != Payload::kFollows;
    pending.is_told = true;
    pending.is_sent = payload != Payload::kWillFollow;
  }
  num_repeats_ = is_repeat ? num_repeats_ + 1 : 0;
}

/// Of all requests that have not failed.
Proposal Coordinator::BuildProposal(Layout layout) {
  proposed_.clear();
  std::vector<const Outgoing*> outgoing;
  Message message;
  message.is_leaving = is_leaving_;
  message.num_steps = meetings_.num_steps();
  message.waits_for = WaitsFor();
  message.failures = meetings_.to_tell();
  std::set<std::string> descriptions;
  for (const auto& [key, pending] : pending_) {
    const ExchangeRequest& request = pending.request;
    const Ticket& ticket = request.ticket;
    if (meetings_.FailureOf(ticket.meeting)) continue;
    proposed_.push_back(key);
    outgoing.push_back(&pending.outgoing);
    Offer offer{ticket.meeting, NameHash(request.exchange), ticket.step};
    offer.payload = PayloadOf(pending);
    if (ticket.description) {
      offer.description_hash = ticket.description->hash;
      if (!descriptions_.Has(offer.description_hash)) descriptions.insert(ticket.description->text);
    }
    message.offers.push_back(offer);
  }
  message.descriptions.assign(descriptions.begin(), descriptions.end());
  Proposal proposal = MakeProposal(std::move(message), known_, outgoing, options_.num_ranks,
                                   options_.rank, options_.most_bytes / options_.num_ranks);
  if (layout == Layout::kJoined) proposal.Join();
  SetProposed();
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    if (rank != options_.rank)
      counters_.negotiation_bytes += proposal.send_bytes[static_cast<size_t>(rank)];
  }
  meetings_.ForgetTold();
  ++counters_.rounds;
  return proposal;
}

std::vector<Coordinator::Pending> Coordinator::TakeFailed() {
  std::vector<Pending> failed;
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    const bool has_failed = meetings_.FailureOf(entry->second.request.ticket.meeting) != nullptr;
    if (closed_reason_.empty() && !has_failed) {
      ++entry;
      continue;
    }
    failed.push_back(std::move(entry->second));
    entry = pending_.erase(entry);
  }
  return failed;
}

void Coordinator::CheckStalls(const std::vector<Message>& messages) {
  const Clock::time_point now = Clock::now();
  for (const auto& [key, pending] : pending_) {
    const double waited = Seconds(now - pending.since).count();
    if (waited < options_.stall_seconds || pending.request.is_patient) continue;
    const std::string missing = MissingRanks(messages, pending.request, key.first, waited);
    if (missing.empty()) continue;
    gave_up_on_ = ExchangeName(pending.request);
    const MeetingFailure failure{ErrorCode::kAborted, missing};
    // The step's other lookups as well, which the framework would cancel without saying why.
    if (!pending.request.ticket.is_alone) meetings_.FailStep(pending.request.step_id, failure);
    meetings_.Fail(pending.request.ticket.meeting, failure);
  }
}

/// An exchange that is a part of another's here, ranks that run the same lookups do not offer
/// alone.
void Coordinator::CheckJoined(const std::vector<Message>& messages) {
  std::map<Arrivals::key_type, Meeting> joined_at;
  for (const auto& [key, pending] : pending_) {
    const Ticket& ticket = pending.request.ticket;
    const uint64_t exchange_hash = NameHash(pending.request.exchange);
    for (const Meeting& other : ticket.others)
      joined_at.emplace(Arrivals::key_type{other, exchange_hash}, ticket.meeting);
  }
  for (const Message& message : messages) {
    for (const Offer& offer : message.offers) {
      const auto joined = joined_at.find({offer.meeting, offer.exchange_hash});
      if (joined == joined_at.end()) continue;
      for (const Meeting& meeting : {joined->second, offer.meeting})
        meetings_.Fail(meeting, WhyNotTogether(""));
    }
  }
}

ExchangeResult Coordinator::FailForMemory(const Ticket& ticket) {
  const std::string message = "out of memory for what other ranks have sent";
  meetings_.Fail(ticket.meeting, {ErrorCode::kOutOfMemory, message});
  return FailedExchange(ErrorCode::kOutOfMemory, "exchange " + ticket.label + ": " + message);
}

ExchangeResult Coordinator::ResultOf(const Arrival& arrival, const Pending& pending) {
  ExchangeResult result;
  for (const Part& part : arrival.parts) {
    if (part.is_cut) return FailForMemory(pending.request.ticket);
    result.parts.push_back(part.bytes);
  }
  try {
    SetOwnPart(pending.outgoing, static_cast<size_t>(options_.rank), &result);
  } catch (const std::bad_alloc&) {
    return FailForMemory(pending.request.ticket);
  }
  return result;
}

/// The requests that wait on all ranks, taken out of pending_ and arrivals, with what was received
/// for them. All ranks see the same offers, and so come to the same result.
Coordinator::Ready Coordinator::TakeReady(Arrivals* arrivals) {
  std::vector<Companions::Request> together;
  Ready taken;
  std::map<Arrivals::key_type, Key> proposed_at;  // of those that have not failed
  for (const Key& key : proposed_) {
    const auto entry = pending_.find(key);
    if (entry == pending_.end()) continue;
    const ExchangeRequest& request = entry->second.request;
    proposed_at.insert({{request.ticket.meeting, NameHash(request.exchange)}, key});
  }
  for (auto next = arrivals->begin(); next != arrivals->end();) {
    const auto entry = next++;
    const auto& [where, arrival] = *entry;
    if (arrival.steps.size() != static_cast<size_t>(options_.num_ranks)) continue;
    const bool has_all_data = arrival.parts.size() == arrival.steps.size();
    const bool steps_match = !has_all_data || met_steps_.Match(arrival.steps);
    const auto proposed = proposed_at.find(where);
    if (proposed == proposed_at.end()) continue;  // it has failed
    const std::string difference = descriptions_.Difference(arrival.descriptions);
    if (!steps_match || !difference.empty()) {
      meetings_.Fail(where.first, WhyNotTogether(difference));
      continue;
    }
    const Key& key = proposed->second;
    Pending& pending = pending_.at(key);
    pending.all_have_come = true;
    if (!has_all_data) continue;
    known_.Learn({where.first.lookup_hash, where.second, arrival.descriptions.front()},
                 where.first.number);
    together.push_back({key.first, pending.request.kind, key.second});
    ExchangeResult result = ResultOf(arrival, pending);
    taken.emplace_back(std::move(pending), std::move(result));
    pending_.erase(key);
    arrivals->erase(entry);
  }
  companions_.Learn(together);
  return taken;
}

void Coordinator::Count(const Ready& ready) {
  if (!ready.empty()) ++counters_.exchanges;
  for (const auto& [pending, result] : ready) {
    for (int rank = 0; rank < options_.num_ranks; ++rank) {
      if (rank == options_.rank) continue;
      const int64_t bytes = pending.outgoing.send_bytes[static_cast<size_t>(rank)];
      (pending.request.is_of_tables ? counters_.payload_bytes : counters_.dense_bytes) += bytes;
      counters_.negotiation_bytes -= bytes;
    }
  }
}

void Coordinator::Settle(Round* round, std::vector<Pending>* failed, Ready* ready) {
  std::vector<int> leaving;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    const Message& message = round->messages[static_cast<size_t>(rank)];
    if (message.is_leaving) leaving.push_back(rank);
    for (const std::string& text : message.descriptions) descriptions_.Take(text);
    for (const LookupFailure& failure : message.failures) {
      if (rank != options_.rank) meetings_.Take(rank, failure);
    }
  }
  if (!leaving.empty()) {
    closed_reason_ = JoinRanks(leaving) +
                     " has left: its script ended or raised an exception. All ranks must run the "
                     "same number of steps";
  }
  // First what all ranks have offered, also where a lookup has failed since: the others cannot
  // know, and what it exchanged is done on all.
  *ready = TakeReady(&round->arrivals);
  CheckJoined(round->messages);
  CheckStalls(round->messages);
  *failed = TakeFailed();
  for (const Message& message : round->messages) {
    for (const Offer& offer : message.offers) meetings_.TellIfOver(offer.meeting);
  }
  Count(*ready);
}

void Coordinator::Complete(const Received& received) {
  trace_.Arrive();
  EarlyParts before = std::move(early_);
  Round round = ReadRound(received, before, known_);
  std::vector<Pending> failed;
  std::vector<ExchangeResult> reasons;
  Ready ready;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Settle(&round, &failed, &ready);
    for (const Pending& pending : failed) {
      const MeetingFailure* failure = meetings_.FailureOf(pending.request.ticket.meeting);
      reasons.push_back(FailedExchange(failure ? failure->code : ErrorCode::kAborted,
                                       "exchange " + ExchangeName(pending.request) + ": " +
                                           (failure ? failure->message : closed_reason_)));
    }
  }
  early_ = KeepParts(round.arrivals, &before);
  for (size_t i = 0; i < failed.size(); ++i) failed[i].request.done(std::move(reasons[i]));
  for (auto& [pending, result] : ready) {
    const ExchangeRequest& request = pending.request;
    trace_.BeginRequest({ExchangeName(request), request.ticket.step, pending.outgoing.total_bytes(),
                         pending.since});
    request.done(std::move(result));
    trace_.EndRequest();
  }
}

void Coordinator::Abort(const std::string& reason) {
  std::vector<Pending> failed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_reason_.empty()) closed_reason_ = reason;
    for (auto& [key, pending] : pending_) failed.push_back(std::move(pending));
    pending_.clear();
  }
  changed_.notify_all();
  for (Pending& pending : failed) {
    pending.request.done(FailedExchange(
        ErrorCode::kAborted, "exchange " + ExchangeName(pending.request) + ": " + reason));
  }
}

void Coordinator::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_leaving_ = true;
  changed_.notify_all();
}

bool Coordinator::is_closed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return !closed_reason_.empty();
}

}  // namespace sok
