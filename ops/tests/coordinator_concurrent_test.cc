// SPDX-License-Identifier: Apache-2.0
// Coordinators of several ranks, with requests in any order, from any thread.
#include <ctime>

#include "ops/tests/coordinator_fixture.h"

namespace sok::testing {
namespace {

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

/// A request that once came with others, and comes after they have gone, waits for none of them.
SOK_TEST(WhoComesLateWaitsForNobody) {
  Ranks ranks(2, 60.0, 3600.0);
  const auto submit = [&](int64_t step, const std::vector<std::string>& names) {
    std::vector<std::future<Outcome>> results;
    for (const std::string& name : names) {
      for (int rank = 0; rank < 2; ++rank) {
        ExchangeRequest request = Request(rank, 2, step, name);
        request.is_alone = name == "first";  // a reason for a round
        const Ticket ticket = Begin(ranks[rank], rank, step, name);
        results.push_back(Submit(ranks[rank], ticket, std::move(request)));
      }
    }
    for (auto& result : results) {
      CHECK_TRUE(result.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
      CHECK_EQ(result.get().error, "");
    }
  };
  submit(0, {"second", "first"});
  submit(1, {"first"});
  submit(1, {"second"});
}

/// The processor time of two steps of so many lookups, in seconds.
double SecondsOfSteps(int num_lookups) {
  Ranks ranks(2, 60.0, 0.5);
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

/// Where each lookup looks at all others, eight times as many take 64 times as long.
SOK_TEST(ThousandsOfLookupsInAStep) {
  SecondsOfSteps(500);
  const double of_few = SecondsOfSteps(500);
  CHECK_TRUE(SecondsOfSteps(4000) < 30 * of_few);
}

/// A request that blocks its thread waits for no others of this rank.
SOK_TEST(ARequestThatIsAloneIsAReasonForARound) {
  for (const bool is_alone : {false, true}) {
    CoordinatorOptions options;
    options.num_ranks = 2;
    options.grouping_seconds = 3600.0;
    Coordinator coordinator(options);
    ExchangeRequest request = Request(0, 2, 0, "table");
    request.is_alone = is_alone;
    const auto result = Submit(coordinator, Begin(coordinator, 0, 0, "table"), std::move(request));
    CHECK_EQ(coordinator.IsDue(), is_alone);
    coordinator.Abort("the test ends");
  }
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
  CHECK_TRUE(ranks[1].counters().negotiation_bytes < 10000);  // nothing that rank 0 would keep
  auto received = ask(0, 0);
  for (int round = 0; round < 2; ++round) ranks.Round();
  CHECK_EQ(sent.get().error, "");
  CHECK_EQ(received.get().data.size(), static_cast<size_t>(kBytes));
  CHECK_EQ(ranks[1].counters().payload_bytes, kBytes);
  CHECK_TRUE(ranks[1].counters().negotiation_bytes < 10000);
}

/// Requests of which ranks come to one after the other, in opposite orders: each is complete in the
/// round in which the last one comes to it, and nothing was sent twice.
SOK_TEST(WhatComesEarlyIsKept) {
  constexpr int kLookups = 5;
  constexpr int64_t kBytes = 1 << 16;
  Pair ranks;
  const auto ask = [&](int rank, int lookup) {
    ExchangeRequest request = Request(rank, 2, 0, "layer");
    request.data.assign(2 * kBytes, static_cast<char>('a' + 2 * lookup + rank));
    request.send_bytes = {kBytes, kBytes};
    const std::string name = "layer " + std::to_string(lookup);
    return Submit(ranks[rank], Begin(ranks[rank], rank, 0, name), std::move(request));
  };
  std::vector<std::future<Outcome>> results[2];
  for (int i = 0; i < kLookups; ++i) {
    results[0].push_back(ask(0, i));
    results[1].push_back(ask(1, kLookups - 1 - i));
    ranks.Round();
    const bool is_middle = i == kLookups / 2;  // both come to it in this round
    const auto is_ready = [](auto& result) {
      return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    CHECK_EQ(is_ready(results[0].back()), i >= kLookups / 2);
    CHECK_EQ(is_ready(results[1].back()), i >= kLookups / 2);
    CHECK_TRUE(!is_middle || is_ready(results[0][static_cast<size_t>(i)]));
  }
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < kLookups; ++i) {
      const int lookup = rank == 0 ? i : kLookups - 1 - i;
      const Outcome seen = results[rank][static_cast<size_t>(i)].get();
      const char first = static_cast<char>('a' + 2 * lookup);
      CHECK_EQ(seen.error, "");
      CHECK_EQ(seen.data, std::string(kBytes, first) + std::string(kBytes, first + 1));
    }
    CHECK_EQ(ranks[rank].counters().payload_bytes, kLookups * kBytes);
    CHECK_TRUE(ranks[rank].counters().negotiation_bytes < kBytes / 10);
  }
}

/// What ranks have exchanged before is named in few bytes.
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
    ranks.Round();
    for (auto& result : results) CHECK_EQ(result.get().error, "");
    return ranks[0].counters().negotiation_bytes - before;
  };
  CHECK_TRUE(run_step(0) > kLookups * 24);
  for (int64_t step = 1; step < 4; ++step) CHECK_TRUE(run_step(step) < 40 + kLookups * 6);
}

/// A rank that has told what it waits for makes no round after round of it.
SOK_TEST(RanksThatWaitForEachOtherPause) {
  Ranks ranks(2);
  auto first = SubmitFirst(ranks[0], 0, 2, 0, "first");
  auto second = SubmitFirst(ranks[1], 1, 2, 0, "second");
  const auto began = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const int64_t rounds = ranks[0].counters().rounds;
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  CHECK_TRUE(static_cast<double>(rounds) < 20 + waited.count() / 0.0015);
  CheckReceived(SubmitFirst(ranks[1], 1, 2, 0, "first").get(), 1, 2, 0, "first");
  CheckReceived(SubmitFirst(ranks[0], 0, 2, 0, "second").get(), 0, 2, 0, "second");
  CHECK_EQ(first.get().error, "");
  CHECK_EQ(second.get().error, "");
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

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
