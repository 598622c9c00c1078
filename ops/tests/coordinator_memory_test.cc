// SPDX-License-Identifier: Apache-2.0
// Coordinators where memory is refused: the step fails on all ranks, and the next one runs.
#include <atomic>
#include <cstdlib>
#include <new>

#include "ops/exchange/message_parts.h"
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

constexpr int64_t kLarge = 1 << 20;

/// Of large data for both ranks.
ExchangeRequest LargeRequest(int rank, int64_t step) {
  ExchangeRequest request = Request(rank, 2, step, "layer");
  request.data.assign(2 * kLarge, 'x');
  request.send_bytes = {kLarge, kLarge};
  return request;
}

std::future<Outcome> Ask(Pair& ranks, int rank, int64_t step) {
  return Submit(ranks[rank], Begin(ranks[rank], rank, step, "layer"), LargeRequest(rank, step));
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

/// What of the next parts goes to each rank, by source rank.
struct PartsFor {
  std::vector<char> data;
  std::vector<int64_t> bytes;
};
std::vector<PartsFor> PartsByRank(const std::vector<MessageParts>& all_parts) {
  std::vector<PartsFor> by_rank(all_parts.size());
  for (const MessageParts& parts : all_parts) {
    const char* data = parts.data();
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      const int64_t bytes = parts.send_bytes()[rank];
      by_rank[rank].data.insert(by_rank[rank].data.end(), data, data + bytes);
      by_rank[rank].bytes.push_back(bytes);
      data += bytes;
    }
  }
  return by_rank;
}

/// Memory is refused to one rank when it takes parts; -1: to none.
void RunRoundInParts(Pair& ranks, int refused) {
  std::vector<MessageParts> parts;
  for (int rank = 0; rank < 2; ++rank) parts.emplace_back(ranks[rank].Propose());
  for (bool is_last = false; !is_last;) {
    const std::vector<PartsFor> received = PartsByRank(parts);
    for (int rank = 0; rank < 2; ++rank) {
      const auto place = static_cast<size_t>(rank);
      if (rank == refused) refused_bytes = kLarge;
      is_last =
          parts[place].Take(SplitBySource(received[place].data.data(), received[place].bytes));
      refused_bytes = SIZE_MAX;
      if (is_last) ranks[rank].Complete(parts[place].received());
    }
  }
}

SOK_TEST(NoMemoryToSend) {
  Pair ranks;
  auto first = Ask(ranks, 0, 0), second = Ask(ranks, 1, 0);
  RunRound(ranks, 1);
  CheckFailed(first.get(), Words{"exchange layer", "rank 1 failed", "out of memory"});
  const Outcome own = second.get();
  CheckFailed(own, Words{"exchange layer", "out of memory"});
  CHECK_TRUE(own.code == ErrorCode::kOutOfMemory);
  first = Ask(ranks, 0, 1), second = Ask(ranks, 1, 1);
  RunRound(ranks);
  CHECK_EQ(first.get().data.size(), static_cast<size_t>(2 * kLarge));
  CHECK_EQ(second.get().error, "");
}

/// Whoever asked for it gets it where it stands.
SOK_TEST(WhatCameNeedsNoMemory) {
  Pair ranks;
  auto first = Ask(ranks, 0, 0);
  size_t num_bytes = 0;
  ExchangeRequest request = LargeRequest(1, 0);
  request.ticket = Begin(ranks[1], 1, 0, "layer");
  request.done = [&](const ExchangeResult& result) {
    for (const std::string_view part : result.parts) num_bytes += part.size();
  };
  ranks[1].Submit(std::move(request));
  RunRound(ranks, -1, 1);
  CHECK_EQ(first.get().error, "");
  CHECK_EQ(num_bytes, static_cast<size_t>(2 * kLarge));
}

/// What comes early is sent once: who has no memory to keep it fails when it comes there.
SOK_TEST(NoMemoryToKeepWhatComesEarly) {
  Pair ranks;
  auto first = Ask(ranks, 0, 0);
  auto small = SubmitFirst(ranks[0], 0, 2, 0, "small");
  RunRound(ranks, -1, 1);
  RunRound(ranks);
  auto second = Ask(ranks, 1, 0);
  auto other = SubmitFirst(ranks[1], 1, 2, 0, "small");
  RunRound(ranks);
  CHECK_EQ(first.get().data.size(), static_cast<size_t>(2 * kLarge));
  const Outcome own = second.get();
  CheckFailed(own, Words{"exchange layer", "out of memory"});
  CHECK_TRUE(own.code == ErrorCode::kOutOfMemory);
  CheckReceived(small.get(), 0, 2, 0, "small");
  CheckReceived(other.get(), 1, 2, 0, "small");
  first = Ask(ranks, 0, 1), second = Ask(ranks, 1, 1);
  RunRound(ranks);
  CHECK_EQ(first.get().data.size(), static_cast<size_t>(2 * kLarge));
  CHECK_EQ(second.get().error, "");
}

/// The other rank goes on sending: what comes is thrown away. Parts of 32 bytes for a rank: what
/// the messages say comes in several.
SOK_TEST(NoMemoryToPutPartsTogether) {
  for (const int64_t most_bytes : {int64_t{64}, kLarge / 4}) {
    Pair ranks(most_bytes);
    auto first = Ask(ranks, 0, 0), second = Ask(ranks, 1, 0);
    auto small = SubmitFirst(ranks[1], 1, 2, 0, "waits for rank 0");
    RunRoundInParts(ranks, 1);
    CHECK_EQ(first.get().data.size(), static_cast<size_t>(2 * kLarge));
    const Outcome own = second.get();
    CheckFailed(own, Words{"exchange layer", "out of memory"});
    CHECK_TRUE(own.code == ErrorCode::kOutOfMemory);
    ExchangeRequest next = Request(0, 2, 0, "layer", "rows");
    auto rows =
        Submit(ranks[0], {{NameHash("layer") & ~uint64_t{1}, 0}, "layer", 0}, std::move(next));
    auto other = SubmitFirst(ranks[0], 0, 2, 0, "waits for rank 0");
    RunRoundInParts(ranks, -1);
    CheckFailed(rows.get(), Words{"exchange layer/rows", "rank 1 failed", "out of memory"});
    CheckReceived(small.get(), 1, 2, 0, "waits for rank 0");
    CHECK_EQ(other.get().error, "");
    first = Ask(ranks, 0, 1), second = Ask(ranks, 1, 1);
    RunRoundInParts(ranks, -1);
    CHECK_EQ(first.get().data.size(), static_cast<size_t>(2 * kLarge));
    CHECK_EQ(second.get().error, "");
  }
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
