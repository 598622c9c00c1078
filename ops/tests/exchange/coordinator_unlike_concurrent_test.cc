// SPDX-License-Identifier: Apache-2.0
// Coordinators of ranks that run other lookups, or another number of steps.
#include "ops/tests/exchange/coordinator_fixture.h"

namespace sok::testing {
namespace {

/// As if a layer had a different combiner on one rank.
SOK_TEST(LookupsThatAreDescribedDifferently) {
  Ranks ranks(3);
  const auto look_up = [&](int rank, const std::string& text) {
    const Collective collective = ranks[rank].Begin(
        {{"layer"}, StepIdOf(rank, 0), false, std::make_shared<Description>(text)});
    return Submit(ranks[rank], collective, Request(rank, 3, 0, "layer"));
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

/// Rank 0 has built an evaluation model before the one that both train: the same lookup has
/// different names, which never meet.
SOK_TEST(LookupsThatCanNeverMeetFailAtOnce) {
  Ranks ranks(2);
  for (const std::string name : {"layer", "layer:2"}) ranks[0].NoteLookup({name});
  ranks[1].NoteLookup({"layer"});
  const auto began = std::chrono::steady_clock::now();
  auto second = SubmitFirst(ranks[0], 0, 2, 0, "layer:2");
  auto first = SubmitFirst(ranks[1], 1, 2, 0, "layer");
  CheckFailed(second.get(), Words{"exchange layer:2", "rank 1 has no lookup 'layer:2'",
                                  "waits for layer/keys", "in the same order on all ranks"});
  ranks[0].FailStep(StepIdOf(0, 0), ErrorCode::kAborted, "the other lookup failed");
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  CHECK_TRUE(waited.count() < 30.0);
  SubmitFirst(ranks[0], 0, 2, 1, "layer").get();
  CHECK_EQ(first.get().error, "");
}

/// Rank 1 waits for all at the end of its session, and rank 0 runs one step more. Sessions of other
/// graphs, and other sessions of this one, go on.
SOK_TEST(StepsOfASessionThatHasEndedElsewhereFailAtOnce) {
  Ranks ranks(2);
  const LookupName layer{"layer", 3}, second{"layer", 3, /*session=*/1}, other{"layer", 30};
  for (const LookupName& lookup : {layer, other}) ranks[1].NoteLookup(lookup);
  ranks[0].NoteLookup({"end", 3});
  const auto began = std::chrono::steady_clock::now();
  ExchangeRequest end = Request(1, 2, 0, "end");
  end.ends_session = true;
  auto ends = Submit(ranks[1], Begin(ranks[1], 1, 0, LookupName{"end", 3}), std::move(end));
  auto of_other = SubmitFirst(ranks[0], 0, 2, 1, other);
  auto of_second = SubmitFirst(ranks[0], 0, 2, 2, second);
  auto step = SubmitFirst(ranks[0], 0, 2, 3, layer);
  CheckFailed(step.get(), Words{"exchange layer of graph 3", "rank 1 has ended its session",
                                "same number of steps"});
  CheckFailed(ends.get(), Words{"exchange end of graph 3", "this rank has ended its session",
                                "rank 0 waits for layer of graph 3"});
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  CHECK_TRUE(waited.count() < 30.0);
  SubmitFirst(ranks[1], 1, 2, 1, other).get();
  SubmitFirst(ranks[1], 1, 2, 2, second).get();
  CHECK_EQ(of_other.get().error, "");
  CHECK_EQ(of_second.get().error, "");
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
