// SPDX-License-Identifier: Apache-2.0
// Coordinators of several ranks, one of which fails or leaves.
#include "ops/tests/exchange/coordinator_fixture.h"

namespace sok::testing {
namespace {

SOK_TEST(AFailureFailsTheStepOnAllRanksAndNoOther) {
  Ranks ranks(3);
  auto waiting = SubmitFirst(ranks[0], 0, 3, 0, "layer_0");
  auto other = SubmitFirst(ranks[2], 2, 3, 0, "layer_1");
  const Collective collective = Begin(ranks[1], 1, 0, "layer_0");
  ranks[1].FailStep(StepIdOf(1, 0), ErrorCode::kOutOfCapacity, "table is full");
  CheckFailed(waiting.get(), Words{"exchange layer_0", "rank 1 failed", "table is full"});
  // Late requests of that step fail, too; rank 1's with its own message and code.
  const Outcome own = Submit(ranks[1], collective, Request(1, 3, 0, "layer_0")).get();
  CheckFailed(own, Words{"table is full"});
  CHECK_TRUE(own.code == ErrorCode::kOutOfCapacity);
  CheckFailed(SubmitFirst(ranks[2], 2, 3, 0, "layer_0").get(), Words{"rank 1"});
  CheckFailed(SubmitFirst(ranks[1], 1, 3, 0, "layer_1").get(), Words{"table is full"});
  CheckFailed(other.get(), Words{"exchange layer_1", "rank 1", "table is full"});
  CheckFailed(SubmitFirst(ranks[0], 0, 3, 0, "layer_1").get(), Words{"rank 1"});
  RunSteps(ranks, 2, 5, 100, 23, 1);
}

/// Parts that a rank sent before its step failed complete others' requests; nothing later does.
SOK_TEST(AFailureAfterARequestWasSent) {
  Pair ranks;
  std::vector<Collective> collectives;
  std::vector<std::future<Outcome>> results;
  for (int rank = 0; rank < 2; ++rank) {
    collectives.push_back(Begin(ranks[rank], rank, 0, "layer"));
    results.push_back(Submit(ranks[rank], collectives.back(), Request(rank, 2, 0, "layer")));
  }
  ranks[1].FailStep(StepIdOf(1, 0), ErrorCode::kAborted, "cancelled");
  ranks.DeliverAll();
  CheckReceived(results[0].get(), 0, 2, 0, "layer");
  results[1].wait();  // complete or cancelled, whichever happened first
  auto next = Submit(ranks[0], collectives[0], Request(0, 2, 0, "layer", "rows"));
  CheckFailed(next.get(), Words{"exchange layer/rows", "rank 1 failed in this step: cancelled"});
}

/// Parts sent for a step that then failed are not used for the rank's next step.
SOK_TEST(WhatCameForAStepThatFailedIsDropped) {
  Pair ranks;
  const auto ask = [&](int rank, int64_t step) {
    return SubmitFirst(ranks[rank], rank, 2, step, "layer");
  };
  auto early = ask(0, 0);
  ranks.DeliverAll();
  ranks[0].FailStep(StepIdOf(0, 0), ErrorCode::kAborted, "cancelled");
  ranks.DeliverAll();
  auto late = ask(1, 0);
  ranks.DeliverAll();
  CheckFailed(early.get(), Words{"cancelled"});
  CheckFailed(late.get(), Words{"rank 0 failed in this step: cancelled"});
  auto first = ask(0, 1);
  ranks.DeliverAll();
  auto second = ask(1, 1);
  ranks.DeliverAll();
  CheckReceived(first.get(), 0, 2, 1, "layer");
  CheckReceived(second.get(), 1, 2, 1, "layer");
}

/// Rank 2 sends keys and fails. Rank 1 learns of it before its own keys, which rank 0 waits for.
SOK_TEST(ARankThatStopsSinceAnotherFailedSaysSo) {
  for (const bool ends : {false, true}) {
    Ranks ranks(3);
    auto waiting = SubmitFirst(ranks[0], 0, 3, 0, "layer");
    auto sent = SubmitFirst(ranks[2], 2, 3, 0, "layer");
    ranks[2].FailStep(StepIdOf(2, 0), ErrorCode::kAborted, "the script's own check");
    const Collective collective = Begin(ranks[1], 1, 0, "layer");
    const Words cause{"rank 2 failed in this step: the script's own check"};
    CheckFailed(Submit(ranks[1], collective, Request(1, 3, 0, "layer", "others")).get(), cause);
    if (ends) {
      ranks[1].End(collective);
    } else {
      CheckFailed(Submit(ranks[1], collective, Request(1, 3, 0, "layer")).get(), cause);
    }
    CheckFailed(waiting.get(), Words{"exchange layer/keys: rank ", "the script's own check"});
    CheckFailed(sent.get(), Words{"the script's own check"});
    RunSteps(ranks, 2, 3, 0, 29, 1);
  }
}

/// Keys reach rank 1 after its step has ended without them and it has heard that rank 2 failed.
SOK_TEST(KeysForALookupThatFailedAndEndedAreAnswered) {
  Ranks ranks(3);
  const Collective ended = Begin(ranks[1], 1, 0, "layer");
  ranks[1].End(ended);
  ranks[1].Receive(2, LookupFailure{ended.id, "failed in this step"}.Serialize(), false);
  auto waiting = SubmitFirst(ranks[0], 0, 3, 0, "layer");
  CheckFailed(waiting.get(), Words{"exchange layer/keys: rank 1 failed in this step: rank 2 "});
}

/// As a function that fails in an op before its keys are sent, and is not called again.
SOK_TEST(KeysOfAFunctionThatFailedBeforeThemAreAnswered) {
  Ranks ranks(3);
  auto waiting = Submit(ranks[0], BeginInCall(ranks[0], -5, "layer"), Request(0, 3, 0, "layer"));
  auto sent = Submit(ranks[2], BeginInCall(ranks[2], -6, "layer"), Request(2, 3, 0, "layer"));
  ranks[1].End(BeginInCall(ranks[1], -7, "layer"));
  for (auto* result : {&waiting, &sent})
    CheckFailed(result->get(), Words{"exchange layer/keys: rank 1 is past it: call 0 has ended"});
}

/// The transport's watcher ends when a rank leaves: the stall timeout finds ranks lost afterwards.
SOK_TEST(ARankThatIsLostAfterAnotherHasLeft) {
  class Silent : public Mail {
    double SilentSeconds() const override { return 1000.0; }
  };
  auto* mail = new Silent;
  CoordinatorOptions options;
  options.num_ranks = 3;
  options.stall_seconds = 0.5;
  Coordinator coordinator(options, std::unique_ptr<Silent>(mail));
  const Collective collective = Begin(coordinator, 0, 0, "layer");
  std::vector<std::future<Outcome>> results;
  for (const std::string exchange : {"keys", "saves"}) {
    auto request = Request(0, 3, 0, "layer", exchange);
    request.is_patient = exchange == "saves";
    results.push_back(Submit(coordinator, collective, std::move(request)));
    const RequestHeader header{collective.id, {"layer"}, NameHash(exchange), nullptr};
    mail->receiver().Receive(2, HeaderWriter().Write(header).bytes, false);
  }
  mail->receiver().Left(2);
  for (auto& result : results) CheckFailed(result.get(), Words{"waited 0 s for rank 1"});
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

/// In each step some ranks stop somewhere, with or without saying so. No other waits for them.
SOK_TEST(NoRankWaitsForOneThatHasStopped) {
  constexpr int kNumRanks = 4, kNumSteps = 40;
  const std::vector<std::string> exchanges{"keys", "rows", "gradients"};
  const auto run_step = [&](Coordinator& coordinator, int64_t step, std::mt19937* random) {
    const int rank = coordinator.rank();
    const Collective collective = Begin(coordinator, rank, step, "layer");
    const size_t stops_at = (*random)() % 8;  // at none, mostly
    for (size_t i = 0; i < exchanges.size(); ++i) {
      Pause(random, 200);
      if (i == stops_at) {
        if ((*random)() % 2 == 0)
          coordinator.FailStep(StepIdOf(rank, step), ErrorCode::kAborted, "a reason");
        break;
      }
      ExchangeRequest request = Request(rank, kNumRanks, step, exchanges[i], exchanges[i]);
      const Outcome seen = Submit(coordinator, collective, std::move(request)).get();
      CHECK_TRUE(seen.error.find("waited") == std::string::npos);
      if (!seen.error.empty()) break;
      CheckReceived(seen, rank, kNumRanks, step, exchanges[i]);
    }
    coordinator.End(collective);
  };
  for (const TransportKind kind : kTransportKinds) {
    Ranks ranks(kNumRanks, /*stall_seconds=*/30.0, kind);
    std::vector<std::thread> scripts;
    for (int rank = 0; rank < kNumRanks; ++rank) {
      scripts.emplace_back([&, rank] {
        std::mt19937 random(static_cast<unsigned>(7 + rank));
        for (int64_t step = 0; step < kNumSteps; ++step) run_step(ranks[rank], step, &random);
      });
    }
    for (std::thread& script : scripts) script.join();
    RunSteps(ranks, 2, 3, 0, 29, kNumSteps);
  }
}

/// As a step of a graph that fails in an op before its keys are sent, followed by the next batch.
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

/// Rank 1 skips a call: all ranks learn at once which lookups differ, and continue with the next
/// call.
SOK_TEST(OtherEagerCallsFailOnAllRanks) {
  Ranks ranks(3);
  std::vector<std::future<Outcome>> results;
  for (int rank = 0; rank < 3; ++rank) {
    const Collective collective = BeginEagerly(ranks[rank], rank == 1 ? "users" : "items");
    results.push_back(Submit(ranks[rank], collective, Request(rank, 3, 0, "keys")));
  }
  CheckFailed(results[0].get(), Words{"exchange items", "rank 1 looks up users in call 0"});
  CheckFailed(results[1].get(), Words{"exchange users", "looks up items in call 0"});
  CheckFailed(results[2].get(), Words{"exchange items", "rank 1 looks up users in call 0"});
  results.clear();
  for (int rank = 0; rank < 3; ++rank) {
    const Collective collective = BeginEagerly(ranks[rank], "users");
    results.push_back(Submit(ranks[rank], collective, Request(rank, 3, 1, "keys")));
  }
  for (int rank = 0; rank < 3; ++rank)
    CheckReceived(results[static_cast<size_t>(rank)].get(), rank, 3, 1, "keys");
}

/// TensorFlow runs an op of eager code as a step of its own.
SOK_TEST(AnEagerOpThatFailsFailsTheLookupThatBeganLast) {
  Ranks ranks(2);
  const Collective mine = BeginEagerly(ranks[0], "users"), theirs = BeginEagerly(ranks[1], "users");
  auto keys = Submit(ranks[0], mine, Request(0, 2, 0, "keys"));
  ranks[1].FailStep(-99, ErrorCode::kOutOfCapacity, "table is full");
  CheckFailed(keys.get(), Words{"exchange users", "rank 1 failed in this step: table is full"});
  CheckFailed(Submit(ranks[1], theirs, Request(1, 2, 0, "keys")).get(), Words{"table is full"});
}

/// The gradient of an earlier call, after others have gone on.
SOK_TEST(ALookupThatHasEndedIsNotWaitedFor) {
  Ranks ranks(2);
  const Collective mine = BeginEagerly(ranks[0], "users"), theirs = BeginEagerly(ranks[1], "users");
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

/// Ranks leave one after the other; one that sees only the last of them learns of the first.
SOK_TEST(ARankThatLeavesSaysWhy) {
  Ranks ranks(3);
  ranks[2].FailStep(StepIdOf(2, 0), ErrorCode::kInvalidArgument, "the script's own mistake");
  ranks[2].Leave();
  while (!ranks[0].is_closed()) std::this_thread::yield();
  const Words cause{"rank 2 has left", "Its last error: the script's own mistake"};
  CheckFailed(SubmitFirst(ranks[0], 0, 3, 50, "layer").get(), cause);
  ranks[0].Leave();
  while (!ranks[1].is_closed()) std::this_thread::yield();
  CheckFailed(SubmitFirst(ranks[1], 1, 3, 50, "layer").get(), cause);
}

/// The other rank waits for a step that ends since a rank has left, which it has not seen itself.
SOK_TEST(AStepThatEndsSinceARankHasLeftSaysSo) {
  Pair ranks;
  auto waiting = SubmitFirst(ranks[1], 1, 2, 0, "layer");
  static_cast<Receiver&>(ranks[0]).Left(1);
  ranks.DeliverFrom(1);
  const Collective collective = ranks[0].Begin({{"layer"}, StepIdOf(0, 0)});
  CheckFailed(Submit(ranks[0], collective, Request(0, 2, 0, "layer")).get(), {"rank 1 has left"});
  ranks[0].End(collective);
  ranks.DeliverAll();
  CheckFailed(waiting.get(), {"rank 0 failed in this step", "rank 1 has left"});
}

SOK_TEST(AMissingRequestFailsItsStepInTime) {
  Ranks ranks(3, 3.0);  // needed by later steps on slow machines
  for (int rank = 0; rank < 3; ++rank) {
    for (const std::string name : {"layer", "another"}) ranks[rank].NoteLookup({name});
  }
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

/// The framework would cancel it without a reason, which other ranks might receive first.
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
  const Collective collective = Begin(ranks[0], 0, 0, "layer");
  auto first = Submit(ranks[0], collective, Request(0, 2, 0, "layer"));
  CheckFailed(Submit(ranks[0], collective, Request(0, 2, 0, "layer")).get(),
              Words{"layer", "twice"});
  auto other = SubmitFirst(ranks[1], 1, 2, 0, "layer");
  CheckReceived(first.get(), 0, 2, 0, "layer");
  CheckReceived(other.get(), 1, 2, 0, "layer");
  CheckFailed(Submit(ranks[0], collective, Request(0, 2, 0, "layer")).get(),
              Words{"layer", "twice"});
}

SOK_TEST(AbortEndsAllWaits) {
  Pair ranks;
  auto waiting = SubmitFirst(ranks[0], 0, 2, 0, "layer");
  ranks[0].Abort("lost rank 1");
  CheckFailed(waiting.get(), Words{"exchange layer", "lost rank 1"});
  CheckFailed(SubmitFirst(ranks[0], 0, 2, 1, "layer").get(), Words{"lost rank 1"});
  CHECK_TRUE(ranks[0].is_closed());
}

/// Bytes that are no message: the core's error, no crash.
SOK_TEST(BytesThatAreNoMessage) {
  Pair ranks;
  auto waiting = SubmitFirst(ranks[0], 0, 2, 0, "layer");
  RequestHeader header{{1, 0}, {"layer"}, NameHash("keys"), nullptr};
  const std::string bytes = HeaderWriter().Write(header).bytes;
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK_THROWS(ErrorCode::kIo, Words{"rank"},
                 ranks[0].Receive(1, std::string_view(bytes).substr(0, size), false));
  }
  ranks[0].Receive(1, bytes, false);
  CHECK_THROWS(ErrorCode::kIo, Words{"rank 1 has sent layer twice"},
               ranks[0].Receive(1, bytes, false));
  ranks[0].Abort("lost");
  CheckFailed(waiting.get(), Words{"lost"});
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
