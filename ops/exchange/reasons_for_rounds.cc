// SPDX-License-Identifier: Apache-2.0
// When a coordinator has a reason for a round.
#include <algorithm>

#include "ops/exchange/coordinator.h"

namespace sok {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kShortestPauseSeconds = 0.001;  // between two looks for a reason
// Before a round that tells nothing new: twice as long each time.
constexpr std::chrono::microseconds kFirstRepeatPause{100};
constexpr int kMostDoublings = 4;
constexpr Seconds kBusySeconds(0.1);  // after a round: the next may not be far

}  // namespace

bool Coordinator::HasReason(Clock::time_point now) const {
  if (is_leaving_ || !closed_reason_.empty() || !meetings_.to_tell().empty()) return true;
  if (now >= NextRepeat()) return true;
  std::pair<int64_t, const std::set<std::string>*> looked_for{-1, nullptr};
  for (const auto& [key, pending] : pending_) {
    if (pending.all_have_come) return true;
    if (pending.is_told) continue;
    if (pending.request.is_alone) return true;
    if (Seconds(now - pending.since).count() > options_.grouping_seconds) return true;
    const std::set<std::string>* companions = companions_.Of(key.second);
    if (!companions) continue;
    // Some may have gone before, where others came late.
    const std::set<std::string>& gone = companions_.Exchanged(key.first, pending.request.kind);
    if (companions->size() > pending_.size() + gone.size()) continue;
    if (looked_for == std::make_pair(key.first, companions)) continue;
    looked_for = {key.first, companions};
    const bool have_all_come = std::all_of(
        companions->begin(), companions->end(), [&, step = key.first](const std::string& name) {
          return pending_.count({step, name}) != 0 || gone.count(name) != 0;
        });
    if (have_all_come) return true;
  }
  return false;
}

Coordinator::Clock::time_point Coordinator::Heartbeat() const {
  return last_round_ +
         std::chrono::duration_cast<Clock::duration>(Seconds(options_.heartbeat_seconds));
}

/// When it asks for what the other ranks have, if they have been told of requests: each of them may
/// have come there. What waits for others of its group here gets the longest time for that.
Coordinator::Clock::time_point Coordinator::NextRepeat() const {
  const auto num_told = std::count_if(pending_.begin(), pending_.end(),
                                      [](const auto& entry) { return entry.second.is_told; });
  if (num_told == 0) return Clock::time_point::max();
  const bool are_all_told = static_cast<size_t>(num_told) == pending_.size();
  const int doublings = are_all_told ? std::min(num_repeats_, kMostDoublings) : kMostDoublings;
  return last_round_ + kFirstRepeatPause * (1 << doublings);
}

/// Requests that wait for others of their group are a reason of their own before long.
bool Coordinator::IsDue(Clock::time_point now) const {
  return (pending_.empty() && now >= Heartbeat()) || HasReason(now);
}

bool Coordinator::IsDue() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return IsDue(Clock::now());
}

void Coordinator::Wake() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_woken_ = true;
  }
  changed_.notify_all();
}

/// While there are rounds now and then it looks every few milliseconds: nobody wakes it for a
/// request that has to wait for others of its group.
void Coordinator::AwaitReason() {
  std::unique_lock<std::mutex> lock(mutex_);
  const Seconds pause(std::max(options_.grouping_seconds / 4, kShortestPauseSeconds));
  for (auto now = Clock::now(); !is_woken_ && !IsDue(now); now = Clock::now()) {
    is_dozing_ = pending_.empty() && Seconds(now - last_round_) > kBusySeconds;
    const auto next_look = now + std::chrono::duration_cast<Clock::duration>(pause);
    changed_.wait_until(lock, is_dozing_ ? Heartbeat() : std::min(next_look, NextRepeat()));
  }
  is_dozing_ = is_woken_ = false;
}

}  // namespace sok
