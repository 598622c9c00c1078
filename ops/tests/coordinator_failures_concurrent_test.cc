// SPDX-License-Identifier: Apache-2.0
// Coordinators of several ranks where one fails, leaves, or does something else.
#include "ops/tests/coordinator_fixture.h"

namespace sok::testing {
namespace {

/// As where a layer has another combiner on one rank.
SOK_TEST(LookupsThatAreDescribedDifferently) {
  Ranks ranks(3);
  const auto look_up = [&](int rank, const std::string& text) {
    const Ticket ticket =
        ranks[rank].Begin({"layer", StepIdOf(rank, 0), false, std::make_shared<Description>(text)});
    return Submit(ranks[rank], ticket, Request(rank, 3, 0, "layer"));
  };
  for (const std::string table : {"first", "second"}) {
    std::vector<std::future<Outcome>> results;
    for (int rank = 0; rank < 3; ++rank)
      results.push_back(look_up(rank, "users: sum\n" + table + ": dim 4"));
    for (auto& result : results) CHECK_EQ(result.get().error, "");
  }
  std::vector<std::future<Outcome>> results;
  for (int rank = 0; rank < 3; ++rank)
    results.push_back(look_up(rank, rank == 1 ? "users: sum\nfirst: dim 4" : "users: sum\nnew"));
  for (auto& result : results) {
    const Outcome seen = result.get();
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
  const Outcome own = Submit(ranks[1], ticket, Request(1, 3, 0, "layer_0")).get();
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
  std::vector<std::future<Outcome>> results;
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

/// What a rank sent for a step that failed then is not that of its next one.
SOK_TEST(WhatCameForAStepThatFailedIsDropped) {
  Pair ranks;
  const auto ask = [&](int rank, int64_t step) {
    return SubmitFirst(ranks[rank], rank, 2, step, "layer");
  };
  auto early = ask(0, 0);
  ranks.Round();
  ranks[0].FailStep(StepIdOf(0, 0), ErrorCode::kAborted, "cancelled");
  auto late = ask(1, 0);
  ranks.Round();
  CheckFailed(early.get(), Words{"cancelled"});
  CheckFailed(late.get(), Words{"rank 0 failed in this step: cancelled"});
  auto first = ask(0, 1);
  ranks.Round();
  auto second = ask(1, 1);
  ranks.Round();
  CheckReceived(first.get(), 0, 2, 1, "layer");
  CheckReceived(second.get(), 1, 2, 1, "layer");
}

SOK_TEST(FailuresOfSeveralRanksInOneStep) {
  Ranks ranks(4);
  for (int64_t step = 0; step < 20; ++step) {
    std::vector<std::future<Outcome>> results;
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

/// Rank 1 leaves out a call: all are told at once who looks up what, and go on with the next call.
SOK_TEST(OtherEagerCallsFailOnAllRanks) {
  Ranks ranks(3);
  std::vector<std::future<Outcome>> results;
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
  Ranks ranks(3, 3.0);  // which the steps after it need, where the machine is slow
  const auto began = std::chrono::steady_clock::now();
  auto other = SubmitFirst(ranks[1], 1, 3, 0, "another");
  auto first = SubmitFirst(ranks[0], 0, 3, 0, "layer");
  auto third = SubmitFirst(ranks[2], 2, 3, 0, "layer");
  const Outcome result = first.get();
  CheckFailed(result, Words{"exchange layer", "for rank 1", "SOK_STALL_TIMEOUT_SECONDS"});
  CheckFailed(result, Words{"rank 1 has begun 1 steps and waits for another/keys"});
  CheckFailed(third.get(), Words{"exchange layer", "rank 1"});
  CheckFailed(other.get(), Words{"exchange another"});
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  CHECK_TRUE(waited.count() > 2.9);
  CheckFailed(SubmitFirst(ranks[1], 1, 3, 0, "layer").get(), Words{"SOK_STALL_TIMEOUT"});
  RunSteps(ranks, 3, 3, 0, 31, 1);
}

/// The framework would cancel it, without saying why, and other ranks might be told that first.
SOK_TEST(AStallFailsWhatElseTheStepWaitsFor) {
  Ranks ranks(2, /*stall_seconds=*/0.4);
  auto first = SubmitFirst(ranks[0], 0, 2, 0, "first");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  auto second = SubmitFirst(ranks[0], 0, 2, 0, "second");
  for (auto* waiting : {&first, &second}) {
    CheckFailed(waiting->get(), Words{"waited 0 s for rank 1", "SOK_STALL_TIMEOUT_SECONDS"});
  }
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
  const std::string_view bytes(proposal.data.data(), size);
  for (size_t cut = 1; cut <= size; ++cut) {
    const Received received = {{bytes, bytes.substr(0, size - cut)}};
    CHECK_THROWS(ErrorCode::kIo, Words{"rank"}, coordinator.Complete(received));
  }
  coordinator.Complete({{bytes, bytes}});
  CHECK_EQ(waiting.get().error, "");
}

/// A rank says of what it has never sent that it came before.
SOK_TEST(WhatCannotHaveComeBefore) {
  CoordinatorOptions options;
  options.heartbeat_seconds = options.grouping_seconds = 0.0;
  options.num_ranks = 2;
  Coordinator coordinator(options);
  auto waiting = SubmitFirst(coordinator, 0, 2, 0, "layer");
  Message theirs;
  theirs.offers = {{{NameHash("layer"), 0}, NameHash("keys"), 0, 0, Payload::kCameBefore}};
  std::string bytes = theirs.Serialize({});
  SetSizes(static_cast<int64_t>(bytes.size()), static_cast<int64_t>(bytes.size()), &bytes);
  const Proposal own = coordinator.Propose();
  const std::string_view mine(own.data.data(), static_cast<size_t>(own.send_bytes[0]));
  CHECK_THROWS(ErrorCode::kIo, Words{"rank"}, coordinator.Complete({{mine, bytes}}));
  coordinator.Abort("lost");
  CheckFailed(waiting.get(), Words{"lost"});
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
