// SPDX-License-Identifier: Apache-2.0
// Where the parts of a loop run: the caller's thread, own threads, or TensorFlow's pool (ops/tf).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace sok {

class Executor {
 public:
  virtual ~Executor() = default;

  /// Number of threads that may run parts at the same time, including the caller's; at least 1.
  virtual int num_threads() const = 0;

  /// Calls body(begin, end) on disjoint ranges that together cover [0, count), and returns when all
  /// calls have ended. `item_nanoseconds` is the rough cost of one item: loops too small to share
  /// run on the caller's thread. Rethrows the first exception of a part after all parts have ended.
  virtual void ParallelFor(int64_t count, int64_t item_nanoseconds,
                           const std::function<void(int64_t begin, int64_t end)>& body) = 0;
};

/// Runs everything on the caller's thread.
Executor& SerialExecutor();

/// An executor with `num_threads - 1` threads of its own beside the caller's; num_threads >= 1.
/// Several callers may use it at the same time. In a child of fork(), which lacks its threads,
/// everything runs on the caller's thread.
std::unique_ptr<Executor> MakeThreadExecutor(int num_threads);

/// As above, but callers that ask for the same number of threads share one executor.
std::shared_ptr<Executor> SharedThreadExecutor(int num_threads);

}  // namespace sok
