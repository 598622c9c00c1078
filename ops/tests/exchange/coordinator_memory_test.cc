// SPDX-License-Identifier: Apache-2.0
// Coordinators where memory is refused: the step fails on all ranks, and the next one runs.
#include <atomic>
#include <cstdlib>
#include <new>

#include "ops/tests/exchange/coordinator_fixture.h"

namespace {

std::atomic<size_t> refused_bytes{SIZE_MAX};  // allocations of that size and more are refused

}  // namespace

__attribute__((noinline)) void* operator new(size_t size_bytes) {
  void* memory = size_bytes < refused_bytes ? std::malloc(size_bytes) : nullptr;
  if (!memory) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }
// Sanitizers' own operators would not call these.
__attribute__((noinline)) void* operator new[](size_t size_bytes) {
  return ::operator new(size_bytes);
}
__attribute__((noinline)) void* operator new[](size_t size_bytes, const std::nothrow_t&) noexcept {
  return size_bytes < refused_bytes ? std::malloc(size_bytes) : nullptr;
}
__attribute__((noinline)) void operator delete[](void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}

namespace sok::testing {
namespace {

constexpr int64_t kLarge = 1 << 20;

/// Of large data for both ranks.
ExchangeRequest LargeRequest(int rank, int64_t step) {
  ExchangeRequest request = Request(rank, 2, step, "layer");
  request.outgoing = TextToAll(std::string(kLarge, 'x'), 2);
  return request;
}

std::future<Outcome> Ask(Pair& ranks, int rank, int64_t step) {
  return Submit(ranks[rank], Begin(ranks[rank], rank, step, "layer"), LargeRequest(rank, step));
}

/// The requester gets the data without a copy.
SOK_TEST(WhatCompletesARequestNeedsNoMemory) {
  Pair ranks;
  auto first = Ask(ranks, 0, 0), second = Ask(ranks, 1, 0);
  size_t num_bytes = 0;
  ranks.DeliverFrom(0);
  CHECK_EQ(second.get().error, "");
  ExchangeRequest request = LargeRequest(1, 1);
  request.collective = Begin(ranks[1], 1, 1, "layer");
  request.done = [&](const ExchangeResult& result) {
    for (const std::string_view part : result.parts) num_bytes += part.size();
  };
  ranks[1].Submit(std::move(request));
  auto next = Ask(ranks, 0, 1);
  ranks.DeliverFrom(0, [] { refused_bytes = kLarge; });
  refused_bytes = SIZE_MAX;
  CHECK_EQ(num_bytes, static_cast<size_t>(2 * kLarge));
  ranks.DeliverAll();
  CHECK_EQ(first.get().error, "");
  CHECK_EQ(next.get().error, "");
}

/// A rank without memory for early data, or whose message the transport has cut, fails with its
/// request, and so does the lookup's next exchange on the other rank. The next step runs.
SOK_TEST(NoMemoryToKeepWhatComesEarly) {
  for (const bool is_cut : {false, true}) {
    Pair ranks;
    auto first = Ask(ranks, 0, 0);
    ranks.DeliverFrom(0, [&] { refused_bytes = is_cut ? SIZE_MAX : kLarge; }, is_cut);
    refused_bytes = SIZE_MAX;
    auto small = SubmitFirst(ranks[0], 0, 2, 0, "small");
    auto second = Ask(ranks, 1, 0);
    auto other = SubmitFirst(ranks[1], 1, 2, 0, "small");
    ranks.DeliverAll();
    CHECK_EQ(first.get().data.size(), static_cast<size_t>(2 * kLarge));
    const Outcome own = second.get();
    CheckFailed(own, Words{"exchange layer", "out of memory"});
    CHECK_TRUE(own.code == ErrorCode::kOutOfMemory);
    CheckReceived(small.get(), 0, 2, 0, "small");
    CheckReceived(other.get(), 1, 2, 0, "small");
    ExchangeRequest next = Request(0, 2, 0, "layer", "rows");
    const LookupName layer{"layer"};
    auto rows = Submit(ranks[0], {{layer.Hash(), 0}, layer}, std::move(next));
    CheckFailed(rows.get(), Words{"exchange layer/rows", "rank 1 failed", "out of memory"});
    first = Ask(ranks, 0, 1), second = Ask(ranks, 1, 1);
    ranks.DeliverAll();
    CHECK_EQ(first.get().data.size(), static_cast<size_t>(2 * kLarge));
    CHECK_EQ(second.get().error, "");
  }
}

/// A message in several pieces for which there is no memory: the transport delivers its beginning,
/// and the following message whole.
SOK_TEST(NoMemoryToPutAMessageTogether) {
  const std::string large(kLarge, 'x');
  const std::string small = "small";
  std::string stream(2 * kFrameHeadBytes + large.size() + small.size(), ' ');
  size_t size = Frame({large}, nullptr).CopyTo(stream.data(), stream.size());
  size += Frame({small}, nullptr).CopyTo(stream.data() + size, stream.size());
  CHECK_EQ(size, stream.size());
  for (const size_t piece : {size_t{5}, size_t{100000}, stream.size()}) {
    std::vector<std::pair<std::string, bool>> delivered;
    FrameReader reader;
    for (size_t begin = 0; begin < stream.size(); begin += piece) {
      refused_bytes = kLarge;
      reader.Take(std::string_view(stream).substr(begin, piece),
                  [&](std::string_view message, bool is_cut) {
                    refused_bytes = SIZE_MAX;
                    delivered.emplace_back(message, is_cut);
                  });
      refused_bytes = SIZE_MAX;
    }
    CHECK_EQ(delivered.size(), size_t{2});
    const bool is_cut = piece < large.size();
    CHECK_EQ(delivered[0].second, is_cut);
    CHECK_TRUE(delivered[0].first == large.substr(0, is_cut ? Receiver::kCutBytes : kLarge));
    CHECK_EQ(delivered[1].first, small);
  }
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
