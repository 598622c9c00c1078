// SPDX-License-Identifier: Apache-2.0
// The thread of a coordinator that fails requests and finds those that will never complete.
#include <algorithm>
#include <utility>

#include "ops/exchange/rendezvous/coordinator.h"

namespace sok {
namespace {

using Seconds = std::chrono::duration<double>;
using Entry = ReceiveBuffer::Entry;

constexpr double kLongWaitSeconds = 1.0;  // before a rank reports what it waits for
constexpr double kStatusSeconds = 0.5;    // between reports to other ranks

}  // namespace

void Coordinator::Run() {
  const Seconds tick(std::min(options_.tick_seconds, options_.stall_seconds / 4));
  Clock::time_point inspected = Clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_stopped_) {
    changed_.wait_for(lock, tick, [&] { return is_stopped_ || registry_.has_news(); });
    if (Clock::now() - inspected >= tick) {
      inspected = Clock::now();
      Inspect(inspected);
      TellStatus(inspected, &lock);
    }
    TellAndFail(&lock);
  }
}

/// Runs on its own thread: threads that find a failure may hold locks that the requests' owners
/// need.
void Coordinator::TellAndFail(std::unique_lock<std::mutex>* lock) {
  std::vector<std::pair<ExchangeRequest, CollectiveFailure>> failed;
  for (const auto& [collective, why, source] : registry_.TakeNewlyFailed()) {
    for (Entry& entry : buffer_.TakeFailed(collective, source)) {
      if (!entry.request) continue;
      counters_.negotiation_bytes += entry.sent_bytes;
      // Of several ranks, the first: others may only have stopped since it failed.
      const CollectiveFailure* first =
          source == CollectiveRegistry::kOwn ? nullptr : registry_.FailureOf(collective);
      failed.emplace_back(std::move(*entry.request), first ? *first : why);
    }
  }
  const std::vector<LookupFailure> to_tell = registry_.TakeToTell();
  if (failed.empty() && to_tell.empty()) return;
  lock->unlock();
  for (const LookupFailure& failure : to_tell) SendToAll(failure.Serialize());
  for (const auto& [request, why] : failed) {
    FailRequest(request, why.code, why.message);
  }
  failed.clear();  // without the lock: destroying them may end lookups, which takes it
  lock->lock();
}

void Coordinator::SendToAll(const std::string& message) {
  const auto kept = std::make_shared<const std::string>(message);
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    if (rank != options_.rank) transport_->Send(rank, {*kept}, kept);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  counters_.negotiation_bytes += static_cast<int64_t>(message.size()) * (options_.num_ranks - 1);
}

void Coordinator::Inspect(Clock::time_point now) {
  // If a rank is silent, the watcher of the transport reports which one, until a rank has left.
  const bool is_lost = transport_->SilentSeconds() > options_.stall_seconds / 2;
  const bool is_watched = closed_reason_.empty();
  std::vector<CollectiveId> over;
  for (const auto& [place, entry] : buffer_.entries()) {
    const double waited = Seconds(now - entry.since).count();
    if (!entry.request) {
      over.push_back(place.first);
      const std::string why = WhyNever(entry, now);
      if (!why.empty()) registry_.FailAsUnknown(place.first, why);
    } else if (waited >= options_.stall_seconds &&
               (is_lost ? !is_watched : !entry.request->is_patient)) {
      gave_up_on_ = ExchangeName(*entry.request);
      const CollectiveFailure failure{ErrorCode::kAborted, Missing(entry, waited)};
      registry_.Fail(place.first, failure);
      registry_.FailStep(entry.request->step_id, failure);
    }
  }
  for (const CollectiveId& collective : over) registry_.FailIfOver(collective);
  FailUnevenSessions(now);
}

/// Fails lookups that other ranks wait for, and the end of a session that waits for those ranks.
void Coordinator::FailUnevenSessions(Clock::time_point now) {
  const double long_wait = std::min(kLongWaitSeconds, options_.stall_seconds / 4);
  const auto is_long = [&](const Entry& each) {
    return Seconds(now - each.since).count() > long_wait;
  };
  for (const auto& [end, own] : buffer_.entries()) {
    if (!own.request || !own.request->ends_session || !is_long(own)) continue;
    for (const auto& [place, entry] : buffer_.entries()) {
      const bool is_of_graph = !place.first.is_ordered && entry.lookup.graph == own.lookup.graph;
      // Other sessions of the graph, and threads that prefetch, go on.
      const bool is_of_other = entry.lookup.session > 0 || entry.lookup.start >= 0;
      if (entry.request || !is_of_graph || is_of_other || !is_long(entry)) continue;
      for (size_t rank = 0; rank < own.parts.size(); ++rank) {
        if (own.parts[rank].description || !entry.parts[rank].description) continue;
        const std::string advice = ": all ranks must run the same number of steps";
        registry_.FailAsUnknown(place.first, "has ended its session" + advice);
        registry_.Fail(end.first,
                       {ErrorCode::kAborted, "this rank has ended its session, and rank " +
                                                 std::to_string(rank) + " waits for " +
                                                 entry.lookup.Text() + advice});
        return;
      }
    }
  }
}

/// Describes the ranks that a request waits for, and what they do instead.
std::string Coordinator::Missing(const Entry& entry, double waited) const {
  std::vector<int> missing;
  std::string doing;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    if (rank == options_.rank || entry.parts[static_cast<size_t>(rank)].description) continue;
    missing.push_back(rank);
    const RankStatus& status = statuses_[static_cast<size_t>(rank)];
    doing += ", rank " + std::to_string(rank) + " has begun " + std::to_string(status.num_steps) +
             " steps and waits for " + (status.waits_for.empty() ? "nothing" : status.waits_for);
  }
  return "waited " + std::to_string(static_cast<int>(waited)) + " s for " + JoinRanks(missing) +
         ", more than SOK_STALL_TIMEOUT_SECONDS; this rank is in step " +
         std::to_string(entry.request->collective.step) + doing +
         ". All ranks must run the same lookups in the same number of steps";
}

/// Why a lookup that other ranks wait for never comes, if none of this rank's graphs has it while
/// this rank waits for those ranks.
std::string Coordinator::WhyNever(const Entry& entry, Clock::time_point now) const {
  const double long_wait = std::min(kLongWaitSeconds, options_.stall_seconds / 4);
  const auto is_long = [&](const Entry& each) {
    return Seconds(now - each.since).count() > long_wait;
  };
  if (!is_long(entry) || registry_.Knows(entry.place.first, entry.lookup)) return "";
  for (const auto& [place, own] : buffer_.entries()) {
    if (!own.request || own.request->is_patient || !is_long(own)) continue;
    for (size_t rank = 0; rank < own.parts.size(); ++rank) {
      if (own.parts[rank].description || !entry.parts[rank].description) continue;
      return "has no lookup '" + entry.lookup.Text() + "' in its graphs, and waits for " +
             ExchangeName(*own.request) +
             ": the ranks created lookups of these names in different orders, or only some of "
             "them. "
             "Build the same models in the same order on all ranks";
    }
  }
  return "";
}

void Coordinator::TellStatus(Clock::time_point now, std::unique_lock<std::mutex>* lock) {
  if (Seconds(now - status_told_).count() < std::min(kStatusSeconds, options_.stall_seconds / 4))
    return;
  RankStatus status{registry_.num_steps(), gave_up_on_};
  const double long_wait = std::min(kLongWaitSeconds, options_.stall_seconds / 4);
  const Entry* longest = nullptr;
  for (const auto& [place, entry] : buffer_.entries()) {
    if (entry.request && (!longest || entry.since < longest->since)) longest = &entry;
  }
  if (longest && Seconds(now - longest->since).count() > long_wait)
    status.waits_for = ExchangeName(*longest->request);
  if (status == told_status_ || !closed_reason_.empty()) return;
  told_status_ = status;
  status_told_ = now;
  lock->unlock();
  SendToAll(status.Serialize());
  lock->lock();
}

}  // namespace sok
