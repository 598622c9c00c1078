// SPDX-License-Identifier: Apache-2.0
// A loop whose parts any idle thread may take. The caller never waits for a thread that has not
// begun.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

namespace sok {

/// Helper threads keep it alive, and may arrive after the caller has left.
class SharedLoop {
 public:
  using Body = std::function<void(int64_t begin, int64_t end)>;

  /// Calls `body` on parts of [0, count) until Await has returned.
  SharedLoop(int64_t count, int64_t num_parts, const Body& body)
      : count_(count), num_parts_(num_parts), body_(body) {}

  /// The number of parts of a loop for this many threads; 1: too small to share.
  static int64_t NumParts(int64_t count, int64_t item_nanoseconds, int num_threads);

  bool HasParts() const { return next_part_.load() < num_parts_; }

  /// Runs parts until all are taken.
  void RunParts();

  /// Returns when all parts, each of which some thread has taken, have ended; rethrows the first
  /// exception.
  void Await();

 private:
  int64_t PartBegin(int64_t part) const;
  void RunPart(int64_t part);

  const int64_t count_;
  const int64_t num_parts_;
  const Body& body_;
  std::atomic<int64_t> next_part_{0};
  std::mutex mutex_;  // guards the members below
  std::condition_variable all_ended_;
  int64_t num_ended_ = 0;
  std::exception_ptr failure_;
};

}  // namespace sok
