// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/rendezvous/collective_registry.h"

#include <utility>

namespace sok {
namespace {

constexpr size_t kRemembered = 1024;  // steps, calls and failures

}  // namespace

std::string Collective::Text() const {
  return lookup.Text() + (number_in_step == 0 ? "" : "#" + std::to_string(number_in_step));
}

CollectiveRegistry::Step& CollectiveRegistry::StepOf(int64_t step_id) {
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

CollectiveRegistry::Step& CollectiveRegistry::Join(int64_t step_id,
                                                   const CollectiveId& collective) {
  Step& step = StepOf(step_id);
  step.has_begun = true;
  step.collectives.insert(collective);
  active_[collective].step_ids.insert(step_id);
  if (step.failure) Fail(collective, *step.failure);
  return step;
}

Collective CollectiveRegistry::Begin(const LookupCall& call) {
  Collective collective;
  if (!call.step_id) {
    collective = BeginAlone(call);
  } else {
    Step& step = StepOf(*call.step_id);
    collective = call.is_ordered ? BeginOrdered(call, &step) : BeginCounted(call, &step);
    Join(*call.step_id, collective.id);
  }
  collective.description = call.description;
  return collective;
}

Collective CollectiveRegistry::BeginAlone(const LookupCall& call) {
  const int64_t number = NewCall(true);
  latest_alone_ = {call.lookup.Hash(), number, /*repeat=*/0, /*is_ordered=*/true};
  calls_.at(number).counts[latest_alone_.lookup_hash] = {call.lookup, 1};
  active_[latest_alone_];
  return {latest_alone_, call.lookup, 0, next_step_++, true};
}

Collective CollectiveRegistry::BeginOrdered(const LookupCall& call, Step* step) {
  if (step->call < 0) step->call = NewCall(false);
  const uint64_t hash = call.lookup.Hash();
  const int64_t repeat = step->counts[hash]++;
  const auto known = calls_.find(step->call);
  if (known != calls_.end()) known->second.counts[hash] = {call.lookup, repeat + 1};
  return {{hash, step->call, repeat, true}, call.lookup, repeat, step->number};
}

Collective CollectiveRegistry::BeginCounted(const LookupCall& call, Step* step) {
  const uint64_t hash = call.lookup.Hash();
  Count& count = counts_[hash];
  count.lookup = call.lookup;
  return {{hash, count.begun++}, call.lookup, step->counts[hash]++, step->number};
}

int64_t CollectiveRegistry::NewCall(bool is_alone) {
  calls_[next_call_].is_alone = is_alone;
  if (calls_.size() > kRemembered) calls_.erase(calls_.begin());
  return next_call_++;
}

void CollectiveRegistry::End(const Collective& collective) {
  const auto ended = active_.extract(collective.id);
  if (!ended) return;
  const CollectiveFailure* const failure = FailureOf(collective.id);
  for (const int64_t step_id : ended.mapped().step_ids) {
    const auto found = steps_.find(step_id);
    if (found == steps_.end()) continue;
    Step& step = found->second;
    if (failure && step.cause.empty()) step.cause = failure->message;
    step.collectives.erase(collective.id);
    auto next = step.exchanges.lower_bound({collective.id, ""});
    while (next != step.exchanges.end() && next->first == collective.id)
      next = step.exchanges.erase(next);
  }
}

std::optional<int64_t> CollectiveRegistry::Use(StepId step_id, const Collective& collective,
                                               const std::string& exchange) {
  if (step_id && !collective.is_alone) {
    Step& step = Join(*step_id, collective.id);
    if (!step.exchanges.emplace(collective.id, exchange).second) return std::nullopt;
  }
  return active_[collective.id].uses[exchange]++;
}

void CollectiveRegistry::FailStep(StepId step_id, const CollectiveFailure& failure) {
  bool has_begun = false;
  if (step_id) {
    Step& step = StepOf(*step_id);
    if (step.failure) return;
    step.failure = failure;
    has_begun = step.has_begun;
    if (failure.code == ErrorCode::kCancelled) {  // an earlier failure is the cause
      if (!step.cause.empty()) step.failure->message = step.cause;
      for (const CollectiveId& collective : step.collectives) {
        if (const CollectiveFailure* cause = FailureOf(collective))
          step.failure->message = cause->message;
      }
    }
    const CollectiveFailure told = *step.failure;
    for (const CollectiveId& collective : step.collectives) Fail(collective, told);
  }
  if (!has_begun && active_.count(latest_alone_) != 0) Fail(latest_alone_, failure);
}

/// Returns the collective's first failure.
CollectiveRegistry::Recorded& CollectiveRegistry::Record(const CollectiveId& collective,
                                                         const CollectiveFailure& failure,
                                                         int source) {
  newly_failed_.push_back({collective, failure, source});
  const auto [recorded, is_new] = failures_.try_emplace(collective, Recorded{failure, false});
  if (is_new) {
    failed_.push_back(collective);
    if (failed_.size() > kRemembered) {
      failures_.erase(failed_.front());
      failed_.pop_front();
    }
  }
  return recorded->second;
}

void CollectiveRegistry::FailAndTell(const CollectiveId& collective,
                                     const CollectiveFailure& failure, const std::string& told) {
  Recorded& recorded = Record(collective, failure);
  if (!std::exchange(recorded.is_told, true)) to_tell_.push_back({collective, told});
}

void CollectiveRegistry::Fail(const CollectiveId& collective, const CollectiveFailure& failure) {
  FailAndTell(collective, failure, "failed in this step: " + failure.message);
}

void CollectiveRegistry::Take(int rank, const LookupFailure& failure) {
  Record(failure.collective,
         {ErrorCode::kAborted, "rank " + std::to_string(rank) + " " + failure.message}, rank);
}

void CollectiveRegistry::FailIfOver(const CollectiveId& collective) {
  if (active_.count(collective) != 0) return;
  const std::string why = WhyOver(collective);
  if (why.empty()) return;
  if (const CollectiveFailure* cause = FailureOf(collective)) return Fail(collective, *cause);
  FailAndTell(collective, {ErrorCode::kAborted, "this rank " + why}, why);
}

void CollectiveRegistry::FailAsUnknown(const CollectiveId& collective, const std::string& why) {
  FailAndTell(collective, {ErrorCode::kAborted, "this rank " + why}, why);
}

bool CollectiveRegistry::Knows(const CollectiveId& collective, const LookupName& lookup) const {
  return collective.is_ordered || counts_.count(collective.lookup_hash) != 0 ||
         noted_.count({lookup.graph, lookup.name}) != 0;
}

/// Why this rank will never reach the collective; empty if it may.
std::string CollectiveRegistry::WhyOver(const CollectiveId& collective) const {
  static const std::string kEnded =
      " has ended there without it: it hit an error or the end of its data, or the ranks run "
      "different code";
  if (!collective.is_ordered) {
    const auto count = counts_.find(collective.lookup_hash);
    if (count == counts_.end() || collective.number >= count->second.begun) return "";
    return "is past it: step " + std::to_string(collective.number) + " of " +
           count->second.lookup.Text() + kEnded;
  }
  if (collective.number >= next_call_) return "";
  const std::string number = "call " + std::to_string(collective.number);
  const auto call = calls_.find(collective.number);
  if (call == calls_.end()) return "is past it: " + number + kEnded;
  const auto& counts = call->second.counts;
  const auto count = counts.find(collective.lookup_hash);
  if (count != counts.end() && collective.repeat < count->second.begun)
    return "is past it: " + number + kEnded;
  // What a function has not begun yet may still come.
  if (!call->second.is_alone && collective.number + 1 == next_call_) return "";
  std::string lookups;
  for (const auto& [hash, each] : counts)
    lookups += (lookups.empty() ? "" : ", ") + each.lookup.Text();
  return "looks up " + lookups + " in " + number +
         ": all ranks must make the same calls in the same order";
}

const CollectiveFailure* CollectiveRegistry::FailureOf(const CollectiveId& collective) const {
  const auto failure = failures_.find(collective);
  return failure == failures_.end() ? nullptr : &failure->second.why;
}

}  // namespace sok
