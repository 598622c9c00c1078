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
  const Ticket ticket = Begin(ranks[rank], rank, step, name);
  for (const std::string kind : {"keys", "rows"}) {
    auto result =
        Submit(ranks[rank], ticket, Request(rank, ranks.size(), step, name + "/" + kind, kind));
    CheckReceived(result.get(), rank, ranks.size(), step, name + "/" + kind);
  }
  ranks[rank].End(ticket);
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

/// Where each lookup looks at all others, a step takes tens of seconds.
SOK_TEST(ThousandsOfLookupsInAStep) {
  constexpr int kLookups = 4000;
  Ranks ranks(2, 60.0, 0.5);
  const auto began = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < 4; ++step) {
    std::vector<std::future<ExchangeResult>> results;
    for (int i = 0; i < kLookups; ++i) {
      for (int rank = 0; rank < 2; ++rank) {
        const std::string name = "a_lookup_of_a_table/" + std::to_string(i);
        results.push_back(SubmitFirst(ranks[rank], rank, 2, step, name));
      }
    }
    for (auto& result : results) CHECK_EQ(result.get().error, "");
  }
  CHECK_TRUE(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
}

SOK_TEST(SendsNothingElseTwice) {
  Ranks ranks(2);
  auto first = SubmitFirst(ranks[0], 0, 2, 0, "layer");
  std::this_thread::sleep_for(
      std::chrono::milliseconds(100));  // rounds in which rank 1 has nothing
  auto second = SubmitFirst(ranks[1], 1, 2, 0, "layer");
  CheckReceived(first.get(), 0, 2, 0, "layer");
  CheckReceived(second.get(), 1, 2, 0, "layer");
  CHECK_EQ(ranks[1].counters().payload_bytes,
           static_cast<int64_t>(Content(1, 0, 0, "layer").size()));
}

/// A part of a table waits for a rank that writes to a disk.
SOK_TEST(WhatMayWaitLongIsSentOnce) {
  Pair ranks;
  constexpr int64_t kBytes = 1 << 20;
  const auto ask = [&](int rank, int64_t size_bytes) {
    ExchangeRequest request = Request(rank, 2, 0, "part");
    request.is_patient = true;
    request.data.assign(static_cast<size_t>(size_bytes), 'x');
    request.send_bytes = {size_bytes, 0};
    return Submit(ranks[rank], Begin(ranks[rank], rank, 0, "part"), std::move(request));
  };
  auto sent = ask(1, kBytes);
  for (int round = 0; round < 10; ++round) ranks.Round();
  auto received = ask(0, 0);
  for (int round = 0; round < 2; ++round) ranks.Round();
  CHECK_EQ(sent.get().error, "");
  CHECK_EQ(received.get().data.size(), static_cast<size_t>(kBytes));
  CHECK_EQ(ranks[1].counters().payload_bytes, kBytes);
  CHECK_TRUE(ranks[1].counters().negotiation_bytes < 10000);
}

/// As where a layer has another combiner on one rank.
SOK_TEST(LookupsThatAreDescribedDifferently) {
  Ranks ranks(3);
  const auto look_up = [&](int rank, const std::string& text) {
    const Ticket ticket =
        ranks[rank].Begin({"layer", StepIdOf(rank, 0), false, std::make_shared<Description>(text)});
    return Submit(ranks[rank], ticket, Request(rank, 3, 0, "layer"));
  };
  for (const std::string table : {"first", "second"}) {
    std::vector<std::future<ExchangeResult>> results;
    for (int rank = 0; rank < 3; ++rank)
      results.push_back(look_up(rank, "users: sum\n" + table + ": dim 4"));
    for (auto& result : results) CHECK_EQ(result.get().error, "");
  }
  std::vector<std::future<ExchangeResult>> results;
  for (int rank = 0; rank < 3; ++rank)
    results.push_back(look_up(rank, rank == 1 ? "users: sum\nfirst: dim 4" : "users: sum\nnew"));
  for (auto& result : results) {
    const ExchangeResult seen = result.get();
    CheckFailed(seen, Words{"exchange layer", "ranks 0, 2 have 'new', rank 1 has 'first: dim 4'"});
    CHECK_TRUE(seen.code == ErrorCode::kInvalidArgument);
  }
}

SOK_TEST(AFailureFailsTheStepOnAllRanksAndNoOther) {
  Ranks ranks(3);
  auto waiting = SubmitFirst(ranks[0], 0, 3, 0, "layer_0");
  auto other = SubmitFirst(ranks[2], 2, 3, 0, "layer_1");
  const Ticket ticket = Begin(ranks[1], 1, 0, "layer_0");
  ranks[1].FailStep(StepIdOf(1, 0), ErrorCode::kOutOfCapacity, "table is full");
  CheckFailed(waiting.get(), Words{"exchange layer_0", "rank 1 failed", "table is full"});
  // What comes late in that step fails, too; rank 1 says it in its own words and with its code.
  const ExchangeResult own = Submit(ranks[1], ticket, Request(1, 3, 0, "layer_0")).get();
  CheckFailed(own, Words{"table is full"});
  CHECK_TRUE(own.code == ErrorCode::kOutOfCapacity);
  CheckFailed(SubmitFirst(ranks[2], 2, 3, 0, "layer_0").get(), Words{"rank 1"});
  CheckFailed(SubmitFirst(ranks[1], 1, 3, 0, "layer_1").get(), Words{"table is full"});
  CheckFailed(other.get(), Words{"exchange layer_1", "rank 1", "table is full"});
  CheckFailed(SubmitFirst(ranks[0], 0, 3, 0, "layer_1").get(), Words{"rank 1"});
  RunSteps(ranks, 2, 5, 100, 23, 1);
}

/// What was in a round when a rank's step failed ends alike on all ranks: here all have it.
SOK_TEST(AFailureWhileARoundIsOnItsWay) {
  Pair ranks;
  std::vector<Ticket> tickets;
  std::vector<std::future<ExchangeResult>> results;
  for (int rank = 0; rank < 2; ++rank) {
    tickets.push_back(Begin(ranks[rank], rank, 0, "layer"));
    results.push_back(Submit(ranks[rank], tickets.back(), Request(rank, 2, 0, "layer")));
  }
  for (int rank = 0; rank < 2; ++rank) ranks.Propose(rank);
  ranks[1].FailStep(StepIdOf(1, 0), ErrorCode::kAborted, "cancelled");
  for (int rank = 0; rank < 2; ++rank) ranks.Complete(rank);
  for (int rank = 0; rank < 2; ++rank)
    CheckReceived(results[static_cast<size_t>(rank)].get(), rank, 2, 0, "layer");
  auto next = Submit(ranks[0], tickets[0], Request(0, 2, 0, "layer", "rows"));
  ranks.Round();
  CheckFailed(next.get(), Words{"exchange layer/rows", "rank 1 failed in this step: cancelled"});
}

SOK_TEST(FailuresOfSeveralRanksInOneStep) {
  Ranks ranks(4);
  for (int64_t step = 0; step < 20; ++step) {
    std::vector<std::future<ExchangeResult>> results;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string number = std::to_string(rank);
      results.push_back(SubmitFirst(ranks[rank], rank, 4, step, "layer/" + number));
      ranks[rank].FailStep(StepIdOf(rank, step), ErrorCode::kAborted, "reason " + number);
    }
    for (auto& result : results) CheckFailed(result.get(), Words{"reason"});
  }
  RunSteps(ranks, 2, 3, 0, 29, 20);
}

/// As a graph's step that fails in an op before its keys are sent, and goes on with the next batch.
SOK_TEST(AStepThatDiesBeforeItExchangesShiftsNothing) {
  Ranks ranks(2);
  RunSteps(ranks, 1, 2, 0, 31);
  ranks[1].End(Begin(ranks[1], 1, 2, "layer_0"));
  std::thread other([&] {
    CheckFailed(SubmitFirst(ranks[0], 0, 2, 2, "layer_0").get(),
                Words{"exchange layer_0", "rank 1 is past it", "step 2 of layer_0"});
    RunLayer(ranks, 0, 3, "layer_0");
  });
  RunLayer(ranks, 1, 3, "layer_0");
  other.join();
}

/// Two sessions, or threads with other fetches: each lookup meets its own.
SOK_TEST(StepsOfOtherLookupsMayComeInAnyOrder) {
  Ranks ranks(2);
  const auto run = [&](int rank, const std::string& lookup) {
    const int64_t first = lookup == "train" ? 0 : 100;
    for (int64_t step = first; step < first + 20; ++step) RunLayer(ranks, rank, step, lookup);
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] { run(0, "train"), run(0, "evaluate"); });  // one after the other
  threads.emplace_back(run, 1, "evaluate");                            // at once
  threads.emplace_back(run, 1, "train");
  for (std::thread& thread : threads) thread.join();
}

/// Rank 0 looks up both in one step, rank 1 in two.
SOK_TEST(LookupsOfOneStepMeetThoseOfOneStep) {
  Ranks ranks(2, 5.0);
  auto first = SubmitFirst(ranks[0], 0, 2, 0, "first");
  auto second = SubmitFirst(ranks[0], 0, 2, 0, "second");
  auto other_first = SubmitFirst(ranks[1], 1, 2, 0, "first");
  CheckReceived(first.get(), 0, 2, 0, "first");
  CheckReceived(other_first.get(), 1, 2, 0, "first");
  auto other_second = SubmitFirst(ranks[1], 1, 2, 1, "second");
  CheckFailed(second.get(), Words{"exchange second", "different lookups"});
  CheckFailed(other_second.get(), Words{"exchange second", "different lookups"});
}

SOK_TEST(EagerCodeMeetsByTheOrderOfCalls) {
  Ranks ranks(3);
  std::vector<std::thread> scripts;
  for (int rank = 0; rank < 3; ++rank) {
    scripts.emplace_back([&, rank] {
      for (int64_t call = 0; call < 30; ++call) {
        const std::string lookup = call % 3 == 0 ? "users" : "items";
        const Ticket ticket = BeginEagerly(ranks[rank], lookup);
        CHECK_EQ(ticket.meeting.number, call);
        for (const std::string kind : {"keys", "rows"}) {
          auto request = Request(rank, 3, call, kind, kind);
          request.step_id = std::nullopt;
          CheckReceived(Submit(ranks[rank], ticket, std::move(request)).get(), rank, 3, call, kind);
        }
        ranks[rank].End(ticket);
      }
    });
  }
  for (std::thread& script : scripts) script.join();
}

/// Rank 1 leaves out a call: all are told at once who looks up what, and go on with the next call.
SOK_TEST(OtherEagerCallsFailOnAllRanks) {
  Ranks ranks(3);
  std::vector<std::future<ExchangeResult>> results;
  for (int rank = 0; rank < 3; ++rank) {
    const Ticket ticket = BeginEagerly(ranks[rank], rank == 1 ? "users" : "items");
    results.push_back(Submit(ranks[rank], ticket, Request(rank, 3, 0, "keys")));
  }
  CheckFailed(results[0].get(), Words{"exchange items", "rank 1 looks up users in call 0"});
  CheckFailed(results[1].get(), Words{"exchange users", "looks up items in call 0"});
  CheckFailed(results[2].get(), Words{"exchange items", "rank 1 looks up users in call 0"});
  results.clear();
  for (int rank = 0; rank < 3; ++rank) {
    const Ticket ticket = BeginEagerly(ranks[rank], "users");
    results.push_back(Submit(ranks[rank], ticket, Request(rank, 3, 1, "keys")));
  }
  for (int rank = 0; rank < 3; ++rank)
    CheckReceived(results[static_cast<size_t>(rank)].get(), rank, 3, 1, "keys");
}

/// TensorFlow runs an op of eager code as a step of its own.
SOK_TEST(AnEagerOpThatFailsFailsTheLookupThatBeganLast) {
  Ranks ranks(2);
  const Ticket mine = BeginEagerly(ranks[0], "users"), theirs = BeginEagerly(ranks[1], "users");
  auto keys = Submit(ranks[0], mine, Request(0, 2, 0, "keys"));
  ranks[1].FailStep(-99, ErrorCode::kOutOfCapacity, "table is full");
  CheckFailed(keys.get(), Words{"exchange users", "rank 1 failed in this step: table is full"});
  CheckFailed(Submit(ranks[1], theirs, Request(1, 2, 0, "keys")).get(), Words{"table is full"});
}

/// In a function two lookups run side by side; nested calls may look a table up again.
SOK_TEST(AFunctionIsOneCall) {
  Ranks ranks(2);
  for (int64_t call = 0; call < 20; ++call) {
    std::vector<std::thread> lookups;
    for (int rank = 0; rank < 2; ++rank) {
      const int64_t call_id = -5 - 7 * call - rank;
      for (const std::string lookup : {"users", "items", "users"}) {
        lookups.emplace_back([&ranks, rank, call, call_id, lookup] {
          const Ticket ticket = BeginInCall(ranks[rank], call_id, lookup);
          CHECK_EQ(ticket.meeting.number, call);
          auto request = Request(rank, 2, call, lookup);
          request.step_id = call_id;
          CheckReceived(Submit(ranks[rank], ticket, std::move(request)).get(), rank, 2, call,
                        lookup);
          ranks[rank].End(ticket);
        });
      }
    }
    for (std::thread& lookup : lookups) lookup.join();
  }
}

/// The gradient of an earlier call, when others have gone on.
SOK_TEST(ALookupThatHasEndedIsNotWaitedFor) {
  Ranks ranks(2);
  const Ticket mine = BeginEagerly(ranks[0], "users"), theirs = BeginEagerly(ranks[1], "users");
  auto keys = Submit(ranks[0], mine, Request(0, 2, 0, "keys"));
  CheckReceived(Submit(ranks[1], theirs, Request(1, 2, 0, "keys")).get(), 1, 2, 0, "keys");
  CheckReceived(keys.get(), 0, 2, 0, "keys");
  ranks[1].End(theirs);
  CheckFailed(Submit(ranks[0], mine, Request(0, 2, 0, "gradients", "gradients")).get(),
              Words{"users/gradients", "rank 1 is past it", "call 0 has ended there"});
}

SOK_TEST(ALeavingRankEndsTheWaitOfOthers) {
  Ranks ranks(3);
  RunSteps(ranks, 2, 3, 0, 29);
  auto waiting = SubmitFirst(ranks[0], 0, 3, 50, "layer");
  ranks[2].Leave();
  CheckFailed(waiting.get(), Words{"exchange layer", "rank 2 has left"});
  while (!ranks[1].is_closed()) std::this_thread::yield();
  CheckFailed(SubmitFirst(ranks[1], 1, 3, 50, "layer").get(), Words{"rank 2 has left"});
}

SOK_TEST(AMissingRequestFailsItsStepInTime) {
  Ranks ranks(3, 0.4);
  const auto began = std::chrono::steady_clock::now();
  auto other = SubmitFirst(ranks[1], 1, 3, 0, "another");
  auto first = SubmitFirst(ranks[0], 0, 3, 0, "layer");
  auto third = SubmitFirst(ranks[2], 2, 3, 0, "layer");
  const ExchangeResult result = first.get();
  CheckFailed(result, Words{"exchange layer", "for rank 1", "SOK_STALL_TIMEOUT_SECONDS"});
  CheckFailed(result, Words{"rank 1 has begun 1 steps and waits for another/keys"});
  CheckFailed(third.get(), Words{"exchange layer", "rank 1"});
  CheckFailed(other.get(), Words{"exchange another"});
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  CHECK_TRUE(waited.count() > 0.39 && waited.count() < 20.0);
  CheckFailed(SubmitFirst(ranks[1], 1, 3, 0, "layer").get(), Words{"SOK_STALL_TIMEOUT"});
  RunSteps(ranks, 3, 3, 0, 31, 1);
}

SOK_TEST(ARequestTwiceInAStepFails) {
  Ranks ranks(2);
  const Ticket ticket = Begin(ranks[0], 0, 0, "layer");
  auto first = Submit(ranks[0], ticket, Request(0, 2, 0, "layer"));
  CheckFailed(Submit(ranks[0], ticket, Request(0, 2, 0, "layer")).get(), Words{"layer", "twice"});
  auto other = SubmitFirst(ranks[1], 1, 2, 0, "layer");
  CheckReceived(first.get(), 0, 2, 0, "layer");
  CheckReceived(other.get(), 1, 2, 0, "layer");
  CheckFailed(Submit(ranks[0], ticket, Request(0, 2, 0, "layer")).get(), Words{"layer", "twice"});
}

SOK_TEST(AbortEndsAllWaits) {
  CoordinatorOptions options;
  options.num_ranks = 2;
  Coordinator coordinator(options);
  auto waiting = SubmitFirst(coordinator, 0, 2, 0, "layer");
  coordinator.Abort("lost rank 1");
  CheckFailed(waiting.get(), Words{"exchange layer", "lost rank 1"});
  CheckFailed(SubmitFirst(coordinator, 0, 2, 1, "layer").get(), Words{"lost rank 1"});
  CHECK_TRUE(coordinator.is_closed());
}

/// What arrives is no message, or not what it says: the core's error, no crash.
SOK_TEST(BytesThatAreNoRound) {
  CoordinatorOptions options;
  options.num_ranks = 2;
  options.heartbeat_seconds = options.grouping_seconds = 0.0;
  Coordinator coordinator(options);
  auto waiting = SubmitFirst(coordinator, 0, 2, 0, "layer");
  const Proposal proposal = coordinator.Propose();
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
