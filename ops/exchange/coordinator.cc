// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/coordinator.h"

#include <algorithm>
#include <utility>

#include "ops/base/error.h"

namespace sok {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr int64_t kStepsRemembered = 1024;
constexpr int kTrials = 16;

ExchangeResult Failure(std::string message) {
  ExchangeResult result;
  result.error = std::move(message);
  return result;
}

const Offer* FindOffer(const Message& message, int64_t step, uint64_t name_hash) {
  for (const Offer& offer : message.offers) {
    if (offer.step == step && offer.name_hash == name_hash) return &offer;
  }
  return nullptr;
}

std::string JoinRanks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options) : options_(options) {}

int64_t Coordinator::StepNumber(int64_t step_id) {
  const auto [entry, is_new] = step_numbers_.try_emplace(step_id, next_step_);
  if (is_new) {
    ++next_step_;
    if (step_numbers_.size() > static_cast<size_t>(kStepsRemembered)) {
      step_numbers_.erase(
          std::min_element(step_numbers_.begin(), step_numbers_.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; }));
    }
  }
  return entry->second;
}

void Coordinator::Submit(ExchangeRequest request) {
  std::string failure;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const int64_t step = StepNumber(request.step_id);
    const auto failed = failed_steps_.find(step);
    const Key key{step, request.name};
    if (!closed_reason_.empty()) {
      failure = closed_reason_;
    } else if (failed != failed_steps_.end()) {
      failure = failed->second;
    } else if (pending_.count(key) != 0) {
      failure = "the exchange " + request.name +
                " was asked for twice in one step; a lookup cannot stand in a loop";
    } else {
      pending_.emplace(key, Pending{std::move(request), Clock::now()});
    }
  }
  changed_.notify_all();
  if (!failure.empty()) request.done(Failure(failure));
}

void Coordinator::FailStep(int64_t step_id, const std::string& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_reason_.empty()) return;
  const int64_t step = StepNumber(step_id);
  if (!failed_steps_.try_emplace(step, message).second) return;
  failures_to_tell_.push_back({step, message});
  changed_.notify_all();
}

ExchangeCounters Coordinator::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

bool Coordinator::HasReason(Clock::time_point now) const {
  if (is_leaving_ || !closed_reason_.empty() || !failures_to_tell_.empty()) return true;
  for (const auto& [key, pending] : pending_) {
    if (Seconds(now - pending.since).count() > options_.grouping_seconds) return true;
    const auto companions = companions_.find(key.second);
    if (companions == companions_.end()) continue;
    const bool all_here =
        std::all_of(companions->second.names.begin(), companions->second.names.end(),
                    [&, step = key.first](const std::string& name) {
                      return pending_.count({step, name}) != 0;
                    });
    if (all_here) return true;
  }
  return false;
}

void Coordinator::WaitForReason(std::unique_lock<std::mutex>* lock) {
  const auto heartbeat = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                            Seconds(options_.heartbeat_seconds));
  const auto pause =
      std::chrono::duration_cast<Clock::duration>(Seconds(options_.grouping_seconds / 4));
  for (auto now = Clock::now(); !HasReason(now) && now < heartbeat; now = Clock::now()) {
    changed_.wait_until(*lock, pending_.empty() ? heartbeat : std::min(now + pause, heartbeat));
  }
}

Coordinator::Proposal Coordinator::Propose() {
  std::unique_lock<std::mutex> lock(mutex_);
  WaitForReason(&lock);
  proposed_.clear();
  std::vector<size_t> cursors;  // in the data of each request
  Message message;
  message.is_leaving = is_leaving_;
  message.next_step = next_step_;
  message.failures = std::move(failures_to_tell_);
  failures_to_tell_.clear();
  for (const auto& [key, pending] : pending_) {
    proposed_.push_back(key);
    message.offers.push_back({key.first, NameHash(key.second), 0});
    cursors.push_back(0);
  }
  Proposal proposal;
  for (size_t rank = 0; rank < static_cast<size_t>(options_.num_ranks); ++rank) {
    const size_t begin = proposal.data.size();
    for (size_t i = 0; i < proposed_.size(); ++i) {
      message.offers[i].size_bytes = pending_.at(proposed_[i]).request.send_bytes[rank];
    }
    const std::string header = message.Serialize();
    proposal.data.insert(proposal.data.end(), header.begin(), header.end());
    for (size_t i = 0; i < proposed_.size(); ++i) {
      const std::vector<char>& data = pending_.at(proposed_[i]).request.data;
      const auto first = data.begin() + static_cast<std::ptrdiff_t>(cursors[i]);
      proposal.data.insert(proposal.data.end(), first, first + message.offers[i].size_bytes);
      cursors[i] += static_cast<size_t>(message.offers[i].size_bytes);
    }
    proposal.send_bytes.push_back(static_cast<int64_t>(proposal.data.size() - begin));
    if (rank != static_cast<size_t>(options_.rank))
      counters_.negotiation_bytes += proposal.send_bytes.back();
  }
  ++counters_.rounds;
  return proposal;
}

std::vector<Coordinator::Pending> Coordinator::TakeFailed(const std::vector<Message>& messages) {
  std::vector<int> leaving;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    const Message& message = messages[static_cast<size_t>(rank)];
    if (message.is_leaving) leaving.push_back(rank);
    for (const StepFailure& failure : message.failures) {
      failed_steps_.try_emplace(failure.step, rank == options_.rank
                                                  ? failure.message
                                                  : "rank " + std::to_string(rank) +
                                                        " failed in this step: " + failure.message);
    }
  }
  if (!leaving.empty()) {
    closed_reason_ = JoinRanks(leaving) +
                     " has left: its script ended or raised an exception. All ranks must run the "
                     "same number of steps";
  }
  while (failed_steps_.size() > static_cast<size_t>(kStepsRemembered))
    failed_steps_.erase(failed_steps_.begin());

  std::vector<Pending> failed;
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    const auto reason = failed_steps_.find(entry->first.first);
    if (closed_reason_.empty() && reason == failed_steps_.end()) {
      ++entry;
      continue;
    }
    failed.push_back(std::move(entry->second));
    failed.back().request.name = "exchange " + failed.back().request.name + ": " +
                                 (reason != failed_steps_.end() ? reason->second : closed_reason_);
    entry = pending_.erase(entry);
  }
  return failed;
}

void Coordinator::CheckStalls(const std::vector<Message>& messages) {
  const Clock::time_point now = Clock::now();
  for (const auto& [key, pending] : pending_) {
    const double waited = Seconds(now - pending.since).count();
    if (waited < options_.stall_seconds) continue;
    std::vector<int> missing;
    for (int rank = 0; rank < options_.num_ranks; ++rank) {
      if (!FindOffer(messages[static_cast<size_t>(rank)], key.first, NameHash(key.second)))
        missing.push_back(rank);
    }
    if (missing.empty()) continue;
    const std::string message =
        "exchange " + key.second + " waited " + std::to_string(static_cast<int>(waited)) +
        " s for " + JoinRanks(missing) +
        ", more than SOK_STALL_TIMEOUT_SECONDS; this rank is in step " + std::to_string(key.first) +
        ", rank " + std::to_string(missing[0]) + " has begun " +
        std::to_string(messages[static_cast<size_t>(missing[0])].next_step) +
        " steps. All ranks must run the same layers in the same number of steps";
    if (failed_steps_.try_emplace(key.first, message).second)
      failures_to_tell_.push_back({key.first, message});
  }
}

void Coordinator::LearnGroups(const std::vector<Key>& ready) {
  std::map<std::pair<int64_t, std::string>, Group> groups;
  for (const Key& key : ready) {
    Group& group = groups[{key.first, pending_.at(key).request.kind}];
    group.step = key.first;
    group.names.insert(key.second);
  }
  for (auto& [step_and_kind, group] : groups)
    LearnGroup(std::move(group), &last_groups_[step_and_kind.second]);
}

/// The names of one exchange are expected together from now on. If others of their kind came before
/// in the same step, the two groups are tried as one: in a first step or on a busy machine,
/// requests that could have gone together miss each other. Those that wait for each other's results
/// never can, so tries that fail are counted.
void Coordinator::LearnGroup(Group group, Group* last) {
  const bool was_tried = std::all_of(group.names.begin(), group.names.end(), [&](const auto& name) {
    const auto companions = companions_.find(name);
    return companions != companions_.end() && companions->second.is_trial &&
           companions->second.names == group.names;
  });
  for (const std::string& name : group.names) {
    companions_[name] = {group.names, false};
    if (was_tried) trials_left_[name] = kTrials;
  }
  if (last->step == group.step) {
    std::set<std::string> both = group.names;
    both.insert(last->names.begin(), last->names.end());
    const bool may_try = std::all_of(both.begin(), both.end(), [&](const std::string& name) {
      return trials_left_.try_emplace(name, kTrials).first->second > 0;
    });
    for (const std::string& name : both) {
      if (!may_try) break;
      --trials_left_[name];
      companions_[name] = {both, true};
    }
    group.names = std::move(both);
  }
  *last = std::move(group);
}

/// The requests that wait on all ranks, taken out of pending_, with what was received for them.
std::vector<std::pair<Coordinator::Pending, ExchangeResult>> Coordinator::TakeReady(
    const std::vector<Message>& messages, const std::vector<const char*>& payloads) {
  std::map<std::pair<int64_t, uint64_t>, std::vector<std::pair<const char*, int64_t>>> arrived;
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    const char* data = payloads[rank];
    for (const Offer& offer : messages[rank].offers) {
      arrived[{offer.step, offer.name_hash}].emplace_back(data, offer.size_bytes);
      data += offer.size_bytes;
    }
  }
  std::vector<Key> ready;
  for (const Key& key : proposed_) {
    const bool is_everywhere = arrived[{key.first, NameHash(key.second)}].size() == messages.size();
    if (is_everywhere && pending_.count(key) != 0) ready.push_back(key);
  }
  LearnGroups(ready);
  std::vector<std::pair<Pending, ExchangeResult>> taken;
  for (const Key& key : ready) {
    ExchangeResult result;
    for (const auto& [data, size_bytes] : arrived.at({key.first, NameHash(key.second)})) {
      result.data.insert(result.data.end(), data, data + size_bytes);
      result.received_bytes.push_back(size_bytes);
    }
    taken.emplace_back(std::move(pending_.at(key)), std::move(result));
    pending_.erase(key);
  }
  return taken;
}

void Coordinator::Complete(const char* data, const std::vector<int64_t>& received_bytes) {
  std::vector<Message> messages;
  std::vector<const char*> payloads;
  for (const int64_t size_bytes : received_bytes) {
    size_t message_bytes = 0;
    messages.push_back(Message::Parse(data, static_cast<size_t>(size_bytes), &message_bytes));
    payloads.push_back(data + message_bytes);
    int64_t left = size_bytes - static_cast<int64_t>(message_bytes);
    for (const Offer& offer : messages.back().offers) {
      if (offer.size_bytes < 0 || offer.size_bytes > left) left = -1;
      if (left < 0) break;
      left -= offer.size_bytes;
    }
    if (left != 0) Throw(ErrorCode::kIo, "a rank sent other bytes than it had announced");
    data += size_bytes;
  }
  std::vector<Pending> failed;
  std::vector<std::pair<Pending, ExchangeResult>> ready;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    failed = TakeFailed(messages);
    CheckStalls(messages);
    ready = TakeReady(messages, payloads);
    if (!ready.empty()) ++counters_.exchanges;
    for (const auto& [pending, result] : ready) {
      for (int rank = 0; rank < options_.num_ranks; ++rank) {
        if (rank == options_.rank) continue;
        counters_.payload_bytes += pending.request.send_bytes[static_cast<size_t>(rank)];
        counters_.negotiation_bytes -= pending.request.send_bytes[static_cast<size_t>(rank)];
      }
    }
  }
  for (Pending& pending : failed) pending.request.done(Failure(pending.request.name));
  for (auto& [pending, result] : ready) pending.request.done(std::move(result));
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
    pending.request.done(Failure("exchange " + pending.request.name + ": " + reason));
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
