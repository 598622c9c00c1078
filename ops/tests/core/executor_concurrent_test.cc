// SPDX-License-Identifier: Apache-2.0
// Executors: each item runs once, errors are rethrown, several callers and nested loops.
#include <atomic>
#include <numeric>
#include <thread>

#include "ops/base/threads/executor.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

constexpr int64_t kCostly = 100'000;  // nanoseconds; makes any loop worth sharing

void CheckCoversAll(Executor& executor, int64_t count, int64_t item_nanoseconds) {
  std::vector<int> visits(static_cast<size_t>(count));
  executor.ParallelFor(count, item_nanoseconds, [&](int64_t begin, int64_t end) {
    CHECK_TRUE(begin < end);
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
  });
  for (const int count_here : visits) CHECK_EQ(count_here, 1);
}

SOK_TEST(EveryItemOnce) {
  const auto threads = MakeThreadExecutor(4);
  CHECK_EQ(threads->num_threads(), 4);
  CHECK_EQ(SerialExecutor().num_threads(), 1);
  for (const int64_t count : {0, 1, 2, 15, 16, 17, 1000}) {
    for (const int64_t cost : {int64_t{0}, int64_t{1}, kCostly}) {
      CheckCoversAll(*threads, count, cost);
      CheckCoversAll(SerialExecutor(), count, cost);
    }
  }
}

SOK_TEST(TinyLoopsStayOnTheCaller) {
  const auto threads = MakeThreadExecutor(4);
  threads->ParallelFor(100, 10, [caller = std::this_thread::get_id()](int64_t begin, int64_t end) {
    CHECK_EQ(begin, 0);
    CHECK_EQ(end, 100);
    CHECK_TRUE(std::this_thread::get_id() == caller);
  });
}

SOK_TEST(ErrorsComeBackAfterAllPartsEnded) {
  const auto threads = MakeThreadExecutor(3);
  std::atomic<int64_t> num_items{0};
  CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"item"},
               threads->ParallelFor(1000, kCostly, [&](int64_t begin, int64_t end) {
                 num_items += end - begin;
                 if (begin == 0) Throw(ErrorCode::kIo, "item ", 0);
               }));
  CHECK_EQ(num_items.load(), 1000);
  CheckCoversAll(*threads, 100, kCostly);  // it still works
}

SOK_TEST(SeveralCallersAndNestedLoops) {
  const auto threads = MakeThreadExecutor(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        threads->ParallelFor(8, kCostly, [&](int64_t begin, int64_t end) {
          threads->ParallelFor(end - begin, kCostly,
                               [&](int64_t from, int64_t to) { sum += to - from; });
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(sum.load(), 4 * 20 * 8);
}

SOK_TEST(NeedsAThread) {
  CHECK_THROWS(ErrorCode::kInvalidArgument, std::vector<std::string>{"got 0"},
               MakeThreadExecutor(0));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
