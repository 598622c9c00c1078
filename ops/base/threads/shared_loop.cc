// SPDX-License-Identifier: Apache-2.0
#include "ops/base/threads/shared_loop.h"

#include <algorithm>

namespace sok {
namespace {

// Waking a thread costs about 10 microseconds; a part should take a few times that.
constexpr int64_t kPartNanoseconds = 30'000;
// More parts than threads, so that a preempted thread delays little.
constexpr int64_t kPartsPerThread = 4;

}  // namespace

int64_t SharedLoop::NumParts(int64_t count, int64_t item_nanoseconds, int num_threads) {
  if (num_threads <= 1) return 1;
  const int64_t min_items =
      std::max<int64_t>(1, kPartNanoseconds / std::max<int64_t>(1, item_nanoseconds));
  return std::min(std::max<int64_t>(1, count / min_items), num_threads * kPartsPerThread);
}

void SharedLoop::RunParts() {
  for (int64_t part; (part = next_part_.fetch_add(1)) < num_parts_;) RunPart(part);
}

void SharedLoop::Await() {
  std::unique_lock<std::mutex> lock(mutex_);
  all_ended_.wait(lock, [&] { return num_ended_ == num_parts_; });
  if (failure_) std::rethrow_exception(failure_);
}

int64_t SharedLoop::PartBegin(int64_t part) const {
  return count_ / num_parts_ * part + std::min(part, count_ % num_parts_);
}

void SharedLoop::RunPart(int64_t part) {
  std::exception_ptr failure;
  try {
    body_(PartBegin(part), PartBegin(part + 1));
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure && !failure_) failure_ = failure;
  if (++num_ended_ == num_parts_) all_ended_.notify_all();
}

}  // namespace sok
