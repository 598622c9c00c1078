// SPDX-License-Identifier: Apache-2.0
// Coordinators of several ranks, with requests in any order, from any thread.
#include <ctime>

#include "ops/tests/exchange/coordinator_fixture.h"

namespace sok::testing {
namespace {

SOK_TEST(AnyOrderAndAnyDelay) {
  for (const TransportKind kind : kTransportKinds) {
    for (const int num_ranks : {1, 2, 4}) {
      for (const int most_microseconds : {0, 300, 4000}) {
        Ranks ranks(num_ranks, 60.0, kind);
        RunSteps(ranks, 4, most_microseconds > 1000 ? 5 : 15, most_microseconds, 17);
        CHECK_TRUE(ranks[0].counters().payload_bytes > 0 || num_ranks == 1);
      }
    }
  }
}

#ifndef __SANITIZE_THREAD__  // which takes a different time for each access
/// The processor time, in seconds, of two steps with this many lookups.
double SecondsOfSteps(int num_lookups) {
  Ranks ranks(2);
  const std::clock_t began = std::clock();
  for (int64_t step = 0; step < 2; ++step) {
    std::vector<std::future<Outcome>> results;
    for (int i = 0; i < num_lookups; ++i) {
      for (int rank = 0; rank < 2; ++rank) {
        const std::string name = "a_lookup_of_a_table/" + std::to_string(i);
        results.push_back(SubmitFirst(ranks[rank], rank, 2, step, name));
      }
    }
    for (auto& result : results) CHECK_EQ(result.get().error, "");
  }
  return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
}

/// If each lookup scanned all others, eight times as many would take 64 times as long.
SOK_TEST(ThousandsOfLookupsInAStep) {
  SecondsOfSteps(500);
  const double of_few = SecondsOfSteps(500);
  CHECK_TRUE(SecondsOfSteps(4000) < 30 * of_few);
}
#endif

/// A request is sent once, whichever rank comes first.
SOK_TEST(NothingIsSentTwice) {
  Ranks ranks(2);
  auto first = SubmitFirst(ranks[0], 0, 2, 0, "layer");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  auto second = SubmitFirst(ranks[1], 1, 2, 0, "layer");
  CheckReceived(first.get(), 0, 2, 0, "layer");
  CheckReceived(second.get(), 1, 2, 0, "layer");
  CHECK_EQ(ranks[1].counters().payload_bytes,
           static_cast<int64_t>(Content(1, 0, 0, "layer").size()));
}

/// Ranks make requests in opposite orders: each is complete with the second rank's.
SOK_TEST(WhatComesEarlyWaitsInTheReceiveBuffer) {
  constexpr int kLookups = 5;
  Pair ranks;
  std::vector<std::future<Outcome>> results[2];
  const auto is_ready = [](auto& result) {
    return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  for (int i = 0; i < kLookups; ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      const std::string name = "layer " + std::to_string(rank == 0 ? i : kLookups - 1 - i);
      results[rank].push_back(SubmitFirst(ranks[rank], rank, 2, 0, name));
    }
    for (int rank = 0; rank < 2; ++rank) ranks.DeliverFrom(rank);
    CHECK_EQ(is_ready(results[0].back()), i >= kLookups / 2);
    CHECK_EQ(is_ready(results[1].back()), i >= kLookups / 2);
  }
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < kLookups; ++i) {
      const std::string name = "layer " + std::to_string(rank == 0 ? i : kLookups - 1 - i);
      CheckReceived(results[rank][static_cast<size_t>(i)].get(), rank, 2, 0, name);
    }
  }
}

/// Exchanges that ranks have made before are named in few bytes.
SOK_TEST(HeadersAreSmallFromTheSecondStepOn) {
  constexpr int kLookups = 40;
  Pair ranks;
  const auto run_step = [&](int64_t step) {
    const int64_t before = ranks[0].counters().negotiation_bytes;
    std::vector<std::future<Outcome>> results;
    for (const std::string& name : Names(kLookups)) {
      for (int rank = 0; rank < 2; ++rank)
        results.push_back(SubmitFirst(ranks[rank], rank, 2, step, name));
    }
    for (int rank = 0; rank < 2; ++rank) ranks.DeliverFrom(rank);
    for (auto& result : results) CHECK_EQ(result.get().error, "");
    return ranks[0].counters().negotiation_bytes - before;
  };
  CHECK_TRUE(run_step(0) > kLookups * 24);
  for (int64_t step = 1; step < 4; ++step) CHECK_TRUE(run_step(step) < 40 + kLookups * 4);
}

/// Two sessions, or threads with different fetches: each lookup meets its counterpart.
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

/// Rank 0 makes both lookups in one step, rank 1 in two: that is correct.
SOK_TEST(LookupsMeetWhateverElseIsInAStep) {
  Ranks ranks(2);
  auto first = SubmitFirst(ranks[0], 0, 2, 0, "first");
  auto second = SubmitFirst(ranks[0], 0, 2, 0, "second");
  CheckReceived(SubmitFirst(ranks[1], 1, 2, 0, "first").get(), 1, 2, 0, "first");
  Outcome other =
      Submit(ranks[1], Begin(ranks[1], 1, 1, "second"), Request(1, 2, 0, "second")).get();
  CheckReceived(other, 1, 2, 0, "second");
  CheckReceived(first.get(), 0, 2, 0, "first");
  CheckReceived(second.get(), 0, 2, 0, "second");
}

/// Gradients through one function, taken repeatedly: a rank may be one exchange ahead of another
/// that still lacks a third rank's part of the last one.
SOK_TEST(AnExchangeIsUsedAgain) {
  for (const TransportKind kind : kTransportKinds) {
    Ranks ranks(4, 60.0, kind);
    std::vector<std::thread> scripts;
    for (int rank = 0; rank < 4; ++rank) {
      scripts.emplace_back([&, rank] {
        const Collective eager = BeginEagerly(ranks[rank], "users");
        const Collective of_step = Begin(ranks[rank], rank, 1000, "items");
        for (int64_t use = 0; use < 20; ++use) {
          auto request = Request(rank, 4, use, "gradients", "gradients");
          request.step_id = use;
          for (const Collective& collective : {eager, of_step})
            CheckReceived(Submit(ranks[rank], collective, request).get(), rank, 4, use,
                          "gradients");
        }
        ranks[rank].End(eager);
        ranks[rank].End(of_step);
      });
    }
    for (std::thread& script : scripts) script.join();
  }
}

SOK_TEST(EagerCodeMeetsByTheOrderOfCalls) {
  Ranks ranks(3);
  std::vector<std::thread> scripts;
  for (int rank = 0; rank < 3; ++rank) {
    scripts.emplace_back([&, rank] {
      for (int64_t call = 0; call < 30; ++call) {
        const std::string lookup = call % 3 == 0 ? "users" : "items";
        const Collective collective = BeginEagerly(ranks[rank], lookup);
        CHECK_EQ(collective.id.number, call);
        for (const std::string kind : {"keys", "rows"}) {
          auto request = Request(rank, 3, call, kind, kind);
          request.step_id = std::nullopt;
          CheckReceived(Submit(ranks[rank], collective, std::move(request)).get(), rank, 3, call,
                        kind);
        }
        ranks[rank].End(collective);
      }
    });
  }
  for (std::thread& script : scripts) script.join();
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
          const Collective collective = BeginInCall(ranks[rank], call_id, lookup);
          CHECK_EQ(collective.id.number, call);
          auto request = Request(rank, 2, call, lookup);
          request.step_id = call_id;
          CheckReceived(Submit(ranks[rank], collective, std::move(request)).get(), rank, 2, call,
                        lookup);
          ranks[rank].End(collective);
        });
      }
    }
    for (std::thread& lookup : lookups) lookup.join();
  }
}

/// A loop over a data set in one function: its lookups are named in few bytes, and leave nothing.
SOK_TEST(AFunctionOfManyLookups) {
  Pair ranks;
  const auto run = [&](int num_lookups) {
    const int64_t before = ranks[0].counters().negotiation_bytes;
    for (int i = 0; i < num_lookups; ++i) {
      std::vector<Collective> collectives;
      std::vector<std::future<Outcome>> results;
      for (int rank = 0; rank < 2; ++rank) {
        auto request = Request(rank, 2, i, "users");
        request.step_id = -5;
        collectives.push_back(BeginInCall(ranks[rank], -5, "users"));
        results.push_back(Submit(ranks[rank], collectives.back(), std::move(request)));
      }
      for (int rank = 0; rank < 2; ++rank) ranks.DeliverFrom(rank);
      for (int rank = 0; rank < 2; ++rank) {
        CheckReceived(results[static_cast<size_t>(rank)].get(), rank, 2, i, "users");
        ranks[rank].End(collectives[static_cast<size_t>(rank)]);
      }
    }
    return ranks[0].counters().negotiation_bytes - before;
  };
  run(10);
  CHECK_TRUE(run(1000) < 1000 * 7);
  const int64_t before = ranks[0].counters().negotiation_bytes;
  ranks[0].FailStep(-5, ErrorCode::kAborted, "after the last of them");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_TRUE(ranks[0].counters().negotiation_bytes - before < 100);  // no lookup is left to fail
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
