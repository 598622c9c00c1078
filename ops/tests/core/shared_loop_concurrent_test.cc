// SPDX-License-Identifier: Apache-2.0
// Shared loops: the caller waits for running parts, and for no helper that arrives late.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "ops/base/threads/shared_loop.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

SOK_TEST(ALateHelperFindsNothing) {
  std::shared_ptr<SharedLoop> loop;
  int64_t num_items = 0;
  {
    const SharedLoop::Body body = [&](int64_t begin, int64_t end) { num_items += end - begin; };
    loop = std::make_shared<SharedLoop>(10, 4, body);
    CHECK_TRUE(loop->HasParts());
    loop->RunParts();
    loop->Await();
  }
  CHECK_EQ(num_items, 10);
  CHECK_TRUE(!loop->HasParts());
  loop->RunParts();  // after the body was destroyed
  CHECK_EQ(num_items, 10);
}

SOK_TEST(TheCallerWaitsForPartsThatHelpersRun) {
  constexpr int64_t kItems = 1000;
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<int> visits(kItems);
    const SharedLoop::Body body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    };
    const auto loop = std::make_shared<SharedLoop>(kItems, 16, body);
    std::vector<std::thread> helpers;
    for (int i = 0; i < 3; ++i) helpers.emplace_back([loop] { loop->RunParts(); });
    loop->RunParts();
    loop->Await();
    for (const int count : visits) CHECK_EQ(count, 1);
    for (std::thread& helper : helpers) helper.join();
  }
}

SOK_TEST(TheFirstFailureComesAfterAllParts) {
  int64_t num_items = 0;
  const SharedLoop::Body body = [&](int64_t begin, int64_t end) {
    num_items += end - begin;
    Throw(ErrorCode::kIo, "part at ", begin);
  };
  SharedLoop loop(8, 2, body);
  loop.RunParts();
  CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"part at 0"}, loop.Await());
  CHECK_EQ(num_items, 8);
}

SOK_TEST(SmallLoopsHaveOnePart) {
  CHECK_EQ(SharedLoop::NumParts(100, 10, 4), 1);
  CHECK_EQ(SharedLoop::NumParts(100, 1'000'000, 1), 1);
  CHECK_EQ(SharedLoop::NumParts(2, 1'000'000, 4), 2);
  CHECK_TRUE(SharedLoop::NumParts(1'000'000, 1'000, 4) > 4);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
