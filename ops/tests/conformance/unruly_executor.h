// SPDX-License-Identifier: Apache-2.0
// Runs a loop as a GPU might: in small pieces, in any order, on threads that start together.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "ops/base/threads/executor.h"

namespace sok::testing {

class UnrulyExecutor : public Executor {
 public:
  explicit UnrulyExecutor(int num_threads) : threads_(MakeThreadExecutor(num_threads)) {}

  int num_threads() const override { return threads_->num_threads(); }

  void ParallelFor(int64_t count, int64_t,
                   const std::function<void(int64_t begin, int64_t end)>& body) override {
    const int64_t num_pieces = (count + kPiece - 1) / kPiece;
    std::vector<int64_t> order(static_cast<size_t>(num_pieces));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(static_cast<uint64_t>(count)));
    std::atomic<int> num_arrived{0};
    threads_->ParallelFor(num_pieces, kPieceNanoseconds, [&](int64_t begin, int64_t end) {
      ++num_arrived;
      WaitForAnother(num_arrived);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = order[static_cast<size_t>(i)] * kPiece;
        body(first, std::min(first + kPiece, count));
      }
    });
  }

 private:
  static constexpr int64_t kPiece = 7;
  static constexpr int64_t kPieceNanoseconds = 100'000;  // so that all threads take part

  /// Otherwise an early thread would finish before the next one is awake.
  static void WaitForAnother(const std::atomic<int>& num_arrived) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
    while (num_arrived < 2 && std::chrono::steady_clock::now() < limit) {
    }
  }

  std::unique_ptr<Executor> threads_;
};

}  // namespace sok::testing
