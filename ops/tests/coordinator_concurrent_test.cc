// SPDX-License-Identifier: Apache-2.0
// Coordinators of several ranks, with requests in any order, from any thread.
#include <algorithm>
#include <random>

#include "ops/tests/coordinator_fixture.h"

namespace sok::testing {
namespace {

using Words = std::vector<std::string>;

std::vector<std::string> Names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("layer_" + std::to_string(i));
  return names;
}

void Pause(std::mt19937* random, int most_microseconds) {
  const auto pause = (*random)() % static_cast<unsigned>(most_microseconds + 1);
  if (pause > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause));
}

/// One layer's part of a step: keys, then rows, which need the keys.
void RunLayer(Ranks& ranks, int rank, int64_t step, const std::string& name) {
  for (const std::string kind : {"keys", "rows"}) {
    const std::string full_name = name + "/" + kind;
    auto result = Submit(ranks[rank], Request(rank, ranks.size(), step, full_name, kind));
    CheckReceived(result.get(), rank, ranks.size(), step, full_name);
  }
}

/// Every rank runs the layers of each step on threads of their own, in an order of its own.
void RunSteps(Ranks& ranks, int num_layers, int num_steps, int most_microseconds, unsigned seed,
              int64_t first_step = 0) {
  std::vector<std::thread> scripts;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    scripts.emplace_back([&, rank] {
      std::mt19937 random(seed + static_cast<unsigned>(rank));
      for (int64_t step = first_step; step < first_step + num_steps; ++step) {
        std::vector<std::string> names = Names(num_layers);
        std::shuffle(names.begin(), names.end(), random);
        std::vector<std::thread> layers;
        for (const std::string& name : names) {
          layers.emplace_back([&, name] { RunLayer(ranks, rank, step, name); });
          Pause(&random, most_microseconds);
        }
        for (std::thread& layer : layers) layer.join();
      }
    });
  }
  for (std::thread& script : scripts) script.join();
}

SOK_TEST(AnyOrderAndAnyDelay) {
  for (const int num_ranks : {1, 2, 3, 4}) {
    for (const int most_microseconds : {0, 300, 4000}) {
      Ranks ranks(num_ranks);
      RunSteps(ranks, 6, most_microseconds > 1000 ? 5 : 30, most_microseconds, 17);
      CHECK_TRUE(ranks[0].counters().payload_bytes > 0 || num_ranks == 1);
    }
  }
}

SOK_TEST(LayersOfAStepGoTogether) {
  constexpr int kSteps = 40;
  Ranks ranks(3, 60.0, 0.5);
  RunSteps(ranks, 12, 10, 0, 3);
  const ExchangeCounters before = ranks[1].counters();
  RunSteps(ranks, 12, kSteps, 0, 3, 10);
  const int64_t exchanges = ranks[1].counters().exchanges - before.exchanges;
  // Two for each step, of 24 requests; threads that a busy machine runs late may miss the others
  // of their group.
  CHECK_TRUE(exchanges >= 2 * kSteps);
  CHECK_TRUE(exchanges <= 12 * kSteps);
}

SOK_TEST(SendsNothingElseTwice) {
  Ranks ranks(2);
  auto first = Submit(ranks[0], Request(0, 2, 0, "layer"));
  std::this_thread::sleep_for(
      std::chrono::milliseconds(100));  // rounds in which rank 1 has nothing
  auto second = Submit(ranks[1], Request(1, 2, 0, "layer"));
  CheckReceived(first.get(), 0, 2, 0, "layer");
  CheckReceived(second.get(), 1, 2, 0, "layer");
  CHECK_EQ(ranks[1].counters().payload_bytes,
           static_cast<int64_t>(Content(1, 0, 0, "layer").size()));
}

SOK_TEST(AFailureFailsTheStepOnAllRanksAndNoOther) {
  Ranks ranks(3);
  auto waiting = Submit(ranks[0], Request(0, 3, 0, "layer"));
  auto other = Submit(ranks[2], Request(2, 3, 0, "other layer"));
  ranks[1].FailStep(Request(1, 3, 0, "").step_id, "table is full");
  CheckFailed(waiting.get(), Words{"exchange layer", "rank 1", "table is full"});
  CheckFailed(other.get(), Words{"exchange other layer", "rank 1", "table is full"});
  // What comes late in that step fails, too; rank 1 says it in its own words.
  CheckFailed(Submit(ranks[1], Request(1, 3, 0, "layer")).get(), Words{"table is full"});
  CheckFailed(Submit(ranks[2], Request(2, 3, 0, "layer")).get(), Words{"rank 1"});
  RunSteps(ranks, 4, 5, 100, 23, 1);
}

SOK_TEST(FailuresOfSeveralRanksInOneStep) {
  Ranks ranks(4);
  for (int64_t step = 0; step < 20; ++step) {
    std::vector<std::future<ExchangeResult>> results;
    for (int rank = 0; rank < 4; ++rank)
      results.push_back(
          Submit(ranks[rank], Request(rank, 4, step, "layer/" + std::to_string(rank))));
    for (int rank = 0; rank < 4; ++rank)
      ranks[rank].FailStep(Request(rank, 4, step, "").step_id, "reason " + std::to_string(rank));
    for (auto& result : results) CheckFailed(result.get(), Words{"reason"});
  }
}

SOK_TEST(ALeavingRankEndsTheWaitOfOthers) {
  Ranks ranks(3);
  RunSteps(ranks, 2, 3, 0, 29);
  auto waiting = Submit(ranks[0], Request(0, 3, 50, "layer"));
  ranks[2].Leave();
  CheckFailed(waiting.get(), Words{"exchange layer", "rank 2 has left"});
  while (!ranks[1].is_closed()) std::this_thread::yield();
  CheckFailed(Submit(ranks[1], Request(1, 3, 50, "layer")).get(), Words{"rank 2 has left"});
}

SOK_TEST(AMissingRequestFailsItsStepInTime) {
  Ranks ranks(3, 0.3);
  const auto began = std::chrono::steady_clock::now();
  auto first = Submit(ranks[0], Request(0, 3, 0, "layer"));
  auto third = Submit(ranks[2], Request(2, 3, 0, "layer"));
  CheckFailed(first.get(), Words{"exchange layer", "rank 1", "SOK_STALL_TIMEOUT_SECONDS"});
  CheckFailed(third.get(), Words{"exchange layer", "rank 1"});
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  CHECK_TRUE(waited.count() > 0.29 && waited.count() < 20.0);
  CheckFailed(Submit(ranks[1], Request(1, 3, 0, "layer")).get(), Words{"SOK_STALL_TIMEOUT"});
  RunSteps(ranks, 3, 3, 0, 31, 1);
}

SOK_TEST(ARequestTwiceInAStepFails) {
  Ranks ranks(2);
  auto first = Submit(ranks[0], Request(0, 2, 0, "layer"));
  CheckFailed(Submit(ranks[0], Request(0, 2, 0, "layer")).get(), Words{"layer", "twice"});
  auto other = Submit(ranks[1], Request(1, 2, 0, "layer"));
  CheckReceived(first.get(), 0, 2, 0, "layer");
  CheckReceived(other.get(), 1, 2, 0, "layer");
}

SOK_TEST(AbortEndsAllWaits) {
  CoordinatorOptions options;
  options.num_ranks = 2;
  Coordinator coordinator(options);
  auto waiting = Submit(coordinator, Request(0, 2, 0, "layer"));
  coordinator.Abort("lost rank 1");
  CheckFailed(waiting.get(), Words{"exchange layer", "lost rank 1"});
  CheckFailed(Submit(coordinator, Request(0, 2, 1, "layer")).get(), Words{"lost rank 1"});
  CHECK_TRUE(coordinator.is_closed());
}

/// What arrives is no message, or not what it says: the core's error, no crash.
SOK_TEST(BytesThatAreNoRound) {
  CoordinatorOptions options;
  options.num_ranks = 2;
  options.heartbeat_seconds = options.grouping_seconds = 0.0;
  Coordinator coordinator(options);
  auto waiting = Submit(coordinator, Request(0, 2, 0, "layer"));
  const Coordinator::Proposal proposal = coordinator.Propose();
  const auto size = static_cast<size_t>(proposal.send_bytes[0]);
  std::string both(proposal.data.begin(), proposal.data.begin() + proposal.send_bytes[0]);
  both += both;
  for (size_t cut = 1; cut <= size; ++cut) {
    const std::vector<int64_t> received = {static_cast<int64_t>(size),
                                           static_cast<int64_t>(size - cut)};
    CHECK_THROWS(ErrorCode::kIo, Words{"rank"}, coordinator.Complete(both.data(), received));
  }
  coordinator.Complete(both.data(), std::vector<int64_t>(2, static_cast<int64_t>(size)));
  CHECK_EQ(waiting.get().error, "");
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
