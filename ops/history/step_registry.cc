// SPDX-License-Identifier: Apache-2.0
#include "ops/history/step_registry.h"

#include <algorithm>
#include <utility>

namespace sok {
namespace {

constexpr int64_t kLowestId = -((int64_t{1} << 32) - 1);  // that RowGenerations takes for one

}  // namespace

StepRegistry::Membership StepRegistry::Join(const void* identity, const void* container) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [entry, is_first] = numbers_.try_emplace(identity, last_number_ + 1);
  if (is_first) ++last_number_;
  Step& step = steps_[entry->second];
  return {entry->second, is_first, std::exchange(step.container, container) == container};
}

void StepRegistry::Forget(const void* identity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = numbers_.find(identity);
  ReleaseLocked(entry->second);
  numbers_.erase(entry);
}

void StepRegistry::AddReference(int64_t step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Step* const found = Find(step)) ++found->num_references;
}

void StepRegistry::Release(int64_t step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ReleaseLocked(step);
}

void StepRegistry::ReleaseLocked(int64_t step) {
  Step* const found = Find(step);
  if (found == nullptr || --found->num_references > 0) return;
  steps_.erase(step);
  changed_.notify_all();
}

/// Null if it has ended.
StepRegistry::Step* StepRegistry::Find(int64_t step) {
  const auto entry = steps_.find(step);
  return entry == steps_.end() ? nullptr : &entry->second;
}

int64_t StepRegistry::Use(int64_t step, const void* table) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (step == kUnseen) steps_[kUnseen];
  Step* const user = Find(step);
  if (user == nullptr) return Tick();
  const auto use = user->uses.find(table);
  if (use != user->uses.end()) return step == kUnseen ? Tick() : use->second;
  return user->uses.emplace(table, Tick()).first->second;
}

int64_t StepRegistry::KeepRows(const void* table, int64_t since) {
  const std::lock_guard<std::mutex> lock(mutex_);
  steps_[++last_number_].uses.emplace(table, since);
  return last_number_;
}

int64_t StepRegistry::Now() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Tick();
}

int64_t StepRegistry::Tick() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const int64_t clock = std::chrono::nanoseconds(since_1970).count();
  return now_ = std::max(now_ + 1, clock);
}

bool StepRegistry::IsInUse(const void* table, int64_t moment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(steps_.begin(), steps_.end(), [&](const auto& each) {
    const auto use = each.second.uses.find(table);
    return use != each.second.uses.end() && use->second < moment;
  });
}

void StepRegistry::Give(int64_t step, int64_t contents, const std::vector<int64_t>& rows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Step* const giver = step == kUnseen ? nullptr : Find(step);
  if (giver == nullptr || rows.empty()) return;
  std::vector<int64_t>& given = giver->given[contents];
  const auto middle = given.insert(given.end(), rows.begin(), rows.end());
  std::sort(middle, given.end());
  std::inplace_merge(given.begin(), middle, given.end());
}

int64_t StepRegistry::GiveIds(int64_t step, int64_t contents, std::vector<int64_t> keys) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto count = static_cast<int64_t>(keys.size());
  if (last_id_ - count < kLowestId) last_id_ = -1;
  const int64_t first_id = last_id_ - 1;
  last_id_ -= count;
  Step* const waiter = step == kUnseen ? nullptr : Find(step);
  if (waiter != nullptr && !keys.empty()) {
    waiter->waiting[contents].push_back(
        std::make_shared<const KeysWithIds>(KeysWithIds{first_id, std::move(keys)}));
  }
  return first_id;
}

std::vector<std::shared_ptr<const StepRegistry::KeysWithIds>> StepRegistry::WaitingKeys(
    int64_t step, int64_t contents) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Step* const waiter = Find(step);
  if (waiter == nullptr) return {};
  const auto waiting = waiter->waiting.find(contents);
  return waiting == waiter->waiting.end() ? decltype(waiting->second)() : waiting->second;
}

std::vector<int64_t> StepRegistry::GivenRows(int64_t step, int64_t contents) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Step* const giver = Find(step);
  if (giver == nullptr) return {};
  const auto given = giver->given.find(contents);
  return given == giver->given.end() ? std::vector<int64_t>() : given->second;
}

bool StepRegistry::Enter(int64_t step, const std::string& lookup,
                         const std::vector<CollectiveId>& collectives) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Step* const entering = step == kUnseen ? nullptr : Find(step);
  if (!MayBegin(entering, collectives)) return false;
  if (entering != nullptr) Begin(entering, lookup, collectives);
  return true;
}

bool StepRegistry::MayBegin(const Step* step, const std::vector<CollectiveId>& collectives) const {
  if (num_closed_ == 0 || (step != nullptr && (step->has_begun || step->is_exempt))) return true;
  return std::any_of(collectives.begin(), collectives.end(), [&](const CollectiveId& collective) {
    const auto last = cut_.find(collective.lookup_hash);
    return last != cut_.end() && collective.number <= last->second;
  });
}

/// Also for a step that has begun: it adds another lookup.
void StepRegistry::Begin(Step* step, const std::string& lookup,
                         const std::vector<CollectiveId>& collectives) {
  if (step->is_exempt) return;
  if (!step->has_begun) {
    step->has_begun = true;
    step->lookup = lookup;
    step->began = Clock::now();
  }
  for (const CollectiveId& collective : collectives) {
    int64_t& last = begun_.try_emplace(collective.lookup_hash, collective.number).first->second;
    last = std::max(last, collective.number);
  }
  if (num_closed_ > 0) changed_.notify_all();
}

void StepRegistry::Await(int64_t step, const std::string& lookup,
                         const std::vector<CollectiveId>& collectives,
                         std::function<void()> go_on) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back({step, lookup, collectives, std::move(go_on)});
  }
  WakeReady();  // the gate may have been opened since Enter
}

void StepRegistry::Close(int64_t step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++num_closed_;
  if (Step* const exempt = Find(step)) exempt->is_exempt = true;
  changed_.notify_all();
}

void StepRegistry::Open() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--num_closed_ == 0) cut_.clear();
  }
  WakeReady();
}

StepRegistry::Cut StepRegistry::Begun() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return begun_;
}

void StepRegistry::Raise(const Cut& cut) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [lookup_hash, number] : cut) {
      int64_t& last = cut_.try_emplace(lookup_hash, number).first->second;
      last = std::max(last, number);
    }
  }
  WakeReady();
}

bool StepRegistry::IsRunning() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const auto& each) {
    return each.second.has_begun && !each.second.is_exempt;
  });
}

bool StepRegistry::IsBeyondCut() const {
  return std::any_of(begun_.begin(), begun_.end(), [&](const auto& begun) {
    const auto last = cut_.find(begun.first);
    return last == cut_.end() || last->second < begun.second;
  });
}

std::vector<std::string> StepRegistry::Running() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> running;
  for (const auto& [number, step] : steps_) {
    if (!step.has_begun || step.is_exempt) continue;
    const auto passed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - step.began);
    running.push_back("the step that began with lookup '" + step.lookup + "' " +
                      std::to_string(passed.count()) + " s ago");
  }
  return running;
}

void StepRegistry::AwaitChange(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, most, [&] { return !IsRunning() || IsBeyondCut(); });
}

bool StepRegistry::EndCut(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_for(lock, most, [&] { return !IsRunning(); })) return false;
  cut_.clear();
  return true;
}

void StepRegistry::WakeReady() {
  std::vector<std::function<void()>> woken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    woken = TakeReady();
  }
  for (const auto& go_on : woken) go_on();
}

/// A lookup that lets a step begin also lets its other lookups proceed.
std::vector<std::function<void()>> StepRegistry::TakeReady() {
  const auto step_of = [&](const Waiting& each) {
    return each.step == kUnseen ? nullptr : Find(each.step);
  };
  for (const Waiting& each : waiting_) {
    Step* const step = step_of(each);
    if (step != nullptr && MayBegin(step, each.collectives))
      Begin(step, each.lookup, each.collectives);
  }
  const auto goes_on = std::stable_partition(
      waiting_.begin(), waiting_.end(),
      [&](const Waiting& each) { return !MayBegin(step_of(each), each.collectives); });
  std::vector<std::function<void()>> woken;
  for (auto each = goes_on; each != waiting_.end(); ++each) {
    if (Step* const step = step_of(*each)) Begin(step, each->lookup, each->collectives);
    woken.push_back(std::move(each->go_on));
  }
  waiting_.erase(goes_on, waiting_.end());
  return woken;
}

}  // namespace sok
