// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/prefetch/prefetched_batches.h"

#include <functional>

namespace sok {
namespace {

absl::Status NotStarted() {
  return absl::FailedPreconditionError(
      "no thread makes the batches of prefetch_lookups: call "
      "tf.train.start_queue_runners(sess) "
      "once in the session, before its first step, or use a MonitoredSession, which does it");
}

}  // namespace

absl::Status PrefetchEnded() { return absl::CancelledError("prefetching has ended"); }

void PrefetchedBatch::Wake(Waiters waiters, const absl::Status& status) {
  for (const auto& waiter : waiters) waiter->Wake(status, shared_from_this());
}

void PrefetchedBatch::Put(int64_t slot, std::vector<tf::Tensor> tensors) {
  Waiters waiters, for_all;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    slots_[slot] = std::move(tensors);
    waiters.swap(waiting_[slot]);
    if (static_cast<int64_t>(slots_.size()) >= num_slots_) for_all.swap(waiting_for_all_);
  }
  Wake(std::move(waiters), absl::OkStatus());
  Wake(std::move(for_all), absl::OkStatus());
}

void PrefetchedBatch::Fail(const absl::Status& status) {
  std::map<int64_t, Waiters> waiting;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.ok()) return;
    status_ = status;
    waiting.swap(waiting_);
  }
  for (auto& [slot, waiters] : waiting) Wake(std::move(waiters), status);
}

void PrefetchedBatch::WaitForSlot(int64_t slot, std::shared_ptr<PrefetchWaiter> waiter) {
  absl::Status status;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    status = status_;
    if (status.ok() && slots_.count(slot) == 0) {
      waiting_[slot].push_back(std::move(waiter));
      return;
    }
  }
  waiter->Wake(status, shared_from_this());
}

void PrefetchedBatch::WaitForAll(int64_t num_slots, std::shared_ptr<PrefetchWaiter> waiter) {
  bool is_cancelled = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_cancelled = is_cancelled_;
    if (!is_cancelled && static_cast<int64_t>(slots_.size()) < num_slots) {
      num_slots_ = num_slots;
      waiting_for_all_.push_back(std::move(waiter));
      return;
    }
  }
  waiter->Wake(is_cancelled ? PrefetchEnded() : absl::OkStatus(), shared_from_this());
}

void PrefetchedBatch::Cancel() {
  Waiters for_all;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_cancelled_ = true;
    for_all.swap(waiting_for_all_);
  }
  Wake(std::move(for_all), PrefetchEnded());
}

std::vector<tf::Tensor> PrefetchedBatch::tensors(int64_t slot) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return slots_.at(slot);
}

void PrefetchedBatches::Start() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_started_ = true;
  is_closed_ = false;
}

void PrefetchedBatches::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_closed_ = true;
  const std::shared_ptr<PrefetchedBatch> current = current_;
  Match(std::move(lock));
  if (current) current->Cancel();
}

void PrefetchedBatches::Begin(std::shared_ptr<PrefetchWaiter> waiter) {
  std::unique_lock<std::mutex> lock(mutex_);
  beginning_.push_back(std::move(waiter));
  Match(std::move(lock));
}

std::shared_ptr<PrefetchedBatch> PrefetchedBatches::current() {
  std::lock_guard<std::mutex> lock(mutex_);
  return current_;
}

void PrefetchedBatches::Next(std::shared_ptr<PrefetchWaiter> waiter) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!is_started_) {
    lock.unlock();
    waiter->Wake(NotStarted(), nullptr);
    return;
  }
  is_wanted_ = true;
  steps_.push_back(std::move(waiter));
  Match(std::move(lock));
}

/// Hands batches to waiting ops; unlocks to do so.
void PrefetchedBatches::Match(std::unique_lock<std::mutex> lock) {
  std::vector<std::function<void()>> wake;
  while (true) {
    if (!steps_.empty() && !batches_.empty()) {
      wake.push_back([waiter = steps_.front(), batch = batches_.front()] {
        waiter->Wake(absl::OkStatus(), batch);
      });
      steps_.pop_front();
      batches_.pop_front();
    } else if (is_closed_ && !steps_.empty()) {
      wake.push_back([waiter = steps_.front()] {
        waiter->Wake(absl::OutOfRangeError("there are no more batches"), nullptr);
      });
      steps_.pop_front();
    } else if (is_closed_ && !beginning_.empty()) {
      wake.push_back([waiter = beginning_.front()] { waiter->Wake(PrefetchEnded(), nullptr); });
      beginning_.pop_front();
    } else if (is_wanted_ && !beginning_.empty() &&
               static_cast<int64_t>(batches_.size()) < capacity_) {
      current_ = std::make_shared<PrefetchedBatch>();
      wake.push_back([waiter = beginning_.front(), batch = current_] {
        waiter->Wake(absl::OkStatus(), batch);
      });
      beginning_.pop_front();
      batches_.push_back(current_);
    } else {
      break;
    }
  }
  lock.unlock();
  for (const auto& each : wake) each();
}

}  // namespace sok
