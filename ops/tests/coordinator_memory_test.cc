// SPDX-License-Identifier: Apache-2.0
// Coordinators where memory is refused: the step fails on all ranks, and the next one runs.
#include <atomic>
#include <cstdlib>
#include <new>

#include "ops/tests/coordinator_fixture.h"

namespace {

std::atomic<size_t> refused_bytes{SIZE_MAX};  // requests of that size and more

}  // namespace

__attribute__((noinline)) void* operator new(size_t size_bytes) {
  void* memory = size_bytes < refused_bytes ? std::malloc(size_bytes) : nullptr;
  if (!memory) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sok::testing {
namespace {

using Words = std::vector<std::string>;
constexpr int64_t kLarge = 1 << 20;

/// A request of large data for both ranks.
std::future<ExchangeResult> Ask(Pair& ranks, int rank, int64_t step) {
  ExchangeRequest request = Request(rank, 2, step, "layer");
  request.data.assign(2 * kLarge, 'x');
  request.send_bytes = {kLarge, kLarge};
  return Submit(ranks[rank], Begin(ranks[rank], rank, step, "layer"), std::move(request));
}

/// Memory is refused to one rank's Propose or Complete; -1: to none.
void RunRound(Pair& ranks, int refused_propose = -1, int refused_complete = -1) {
  for (int rank = 0; rank < 2; ++rank) {
    if (rank == refused_propose) refused_bytes = kLarge;
    ranks.Propose(rank);
    refused_bytes = SIZE_MAX;
  }
  for (int rank = 0; rank < 2; ++rank) {
    ranks.Complete(rank, [&] {
      if (rank == refused_complete) refused_bytes = kLarge;
    });
    refused_bytes = SIZE_MAX;
  }
}

SOK_TEST(NoMemoryToSend) {
  Pair ranks;
  auto first = Ask(ranks, 0, 0), second = Ask(ranks, 1, 0);
  RunRound(ranks, 1);
  CheckFailed(first.get(), Words{"exchange layer", "rank 1 failed", "out of memory"});
  const ExchangeResult own = second.get();
  CheckFailed(own, Words{"exchange layer", "out of memory"});
  CHECK_TRUE(own.code == ErrorCode::kOutOfMemory);
  first = Ask(ranks, 0, 1), second = Ask(ranks, 1, 1);
  RunRound(ranks);
  CHECK_EQ(first.get().data.size(), static_cast<size_t>(2 * kLarge));
  CHECK_EQ(second.get().error, "");
}

/// The other rank has what it asked for; what it asks for next in the step fails.
SOK_TEST(NoMemoryForWhatCame) {
  Pair ranks;
  auto first = Ask(ranks, 0, 0), second = Ask(ranks, 1, 0);
  RunRound(ranks, -1, 1);
  CHECK_EQ(first.get().error, "");
  const ExchangeResult own = second.get();
  CheckFailed(own, Words{"exchange layer", "out of memory"});
  CHECK_TRUE(own.code == ErrorCode::kOutOfMemory);
  ExchangeRequest next = Request(0, 2, 0, "layer", "rows");
  auto rows =
      Submit(ranks[0], {{NameHash("layer") & ~uint64_t{1}, 0}, "layer", 0}, std::move(next));
  RunRound(ranks);
  CheckFailed(rows.get(), Words{"exchange layer/rows", "rank 1 failed", "out of memory"});
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
