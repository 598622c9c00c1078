// SPDX-License-Identifier: Apache-2.0
// Ranks that train on the same batches: which are found, and which are not.
#include "ops/exchange/payload/same_requests.h"

#include <string>

#include "ops/tests/check.h"

namespace sok {
namespace {

using Steps = std::vector<std::string>;

/// The ranks found in the steps of a lookup, whose requests are a letter of each rank, `size`
/// times.
RankBits Found(const Steps& steps, size_t size = SameRequests::kLeastBytes) {
  SameRequests requests;
  TrainedAlike trained;
  RankBits found = 0;
  for (const std::string& step : steps) {
    Steps of_ranks;
    for (const char letter : step) of_ranks.emplace_back(size, letter);
    found |= trained.Note(requests.AlikeIn({of_ranks.begin(), of_ranks.end()}));
  }
  return found;
}

SOK_TEST(RanksThatAreAlikeAreFound) {
  CHECK_EQ(Found({"aaa", "bcb", "dbd", "eae"}), 5u);
  CHECK_EQ(Found({"aa", "aa", "bb", "cc", "dd", "ef"}), 3u);
}

SOK_TEST(OthersAreNot) {
  CHECK_EQ(Found({"aa", "bb", "cc"}), 0u);                          // too few steps
  CHECK_EQ(Found({"ab", "bb", "cc", "dd", "ee", "ff", "gg"}), 0u);  // a batch of its own
  CHECK_EQ(Found({"aa", "bb", "cc", "de", "ff", "gg"}), 0u);
  CHECK_EQ(Found({"aa", "aa", "aa", "aa", "aa", "aa"}), 0u);  // keys that are not read
  CHECK_EQ(Found({"aa", "bb", "cc", "dd"}, SameRequests::kLeastBytes - 1), 0u);
}

SOK_TEST(LaterStepsAreNotLookedAt) {
  Steps steps(SameRequests::kMostSteps, "aa");
  steps.insert(steps.end(), {"bb", "cc", "dd"});
  CHECK_EQ(Found(steps), 0u);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
