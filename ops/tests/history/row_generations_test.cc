// SPDX-License-Identifier: Apache-2.0
// Row ids of gradients, before and after keys lose their rows or all contents are replaced.
#include "ops/history/row_generations.h"

#include <vector>

#include "ops/tests/check.h"

namespace sok {
namespace {

using Meaning = RowGenerations::Meaning;

Meaning MeaningOf(RowGenerations& generations, int64_t id) {
  return generations.MeaningsOf(1, &id).front();
}

SOK_TEST(IdsHaveTheRowAndTheGeneration) {
  RowGenerations generations;
  generations.Replace(/*use_hash_index=*/true);
  const int64_t largest = (int64_t{1} << 32) - 2;
  for (const int64_t row : {int64_t{0}, int64_t{5}, largest}) {
    const int64_t id = WithGeneration(row, generations.Current());
    CHECK_TRUE(id > row);
    CHECK_EQ(WithoutGeneration(id), row);
    CHECK_TRUE(MeaningOf(generations, id) == Meaning::kRow);
    CHECK_TRUE(MeaningOf(generations, row) == Meaning::kNoRowOfAny);
  }
  CHECK_EQ(WithGeneration(-7, generations.Current()), -7);
  CHECK_TRUE(MeaningOf(generations, -7) == Meaning::kRow);
}

SOK_TEST(ArithmeticMakesNoIdOfAnotherRow) {
  RowGenerations generations;
  generations.Replace(true);
  const int64_t id = WithGeneration(3, generations.Current());
  for (const int64_t other : {id + 1, id - 1, id ^ 1, id + 1000, id / 2, WithoutGeneration(id)}) {
    const Meaning meaning = MeaningOf(generations, other);
    CHECK_TRUE(meaning == Meaning::kReplaced || meaning == Meaning::kNoRowOfAny);
  }
  CHECK_TRUE(MeaningOf(generations, -id) == Meaning::kNoRowOfAny);
}

SOK_TEST(EvictedRowsAreToldFromThoseOfTheirNextKeys) {
  RowGenerations generations;
  generations.Replace(true);
  const int64_t kept = WithGeneration(3, generations.Current());
  const int64_t evicted = WithGeneration(4, generations.Current());
  generations.Evict({4});
  const int64_t reused = WithGeneration(4, generations.Current());
  generations.Evict({9});
  CHECK_TRUE(MeaningOf(generations, kept) == Meaning::kRow);
  CHECK_TRUE(MeaningOf(generations, evicted) == Meaning::kEvicted);
  CHECK_TRUE(MeaningOf(generations, reused) == Meaning::kRow);
}

SOK_TEST(IdsOfOtherContentsAreReplaced) {
  RowGenerations generations, other;
  generations.Replace(true);
  other.Replace(true);
  const int64_t before = WithGeneration(1, generations.Current());
  const int64_t of_other = WithGeneration(1, other.Current());
  CHECK_TRUE(MeaningOf(generations, of_other) == Meaning::kReplaced);
  generations.Replace(true);
  CHECK_TRUE(MeaningOf(generations, before) == Meaning::kReplaced);
  CHECK_TRUE(MeaningOf(other, of_other) == Meaning::kRow);
}

SOK_TEST(OldGenerationsCountAsReplaced) {
  RowGenerations generations;
  generations.Replace(true);
  const int64_t first = WithGeneration(1, generations.Current());
  for (int i = 0; i < 1 << 16; ++i) {
    CHECK_TRUE(MeaningOf(generations, first) == Meaning::kRow);
    generations.Evict({2});
    generations.Current();
  }
  CHECK_TRUE(MeaningOf(generations, first) == Meaning::kReplaced);
}

SOK_TEST(WithoutAHashIndexThereAreNone) {
  RowGenerations generations;
  generations.Replace(/*use_hash_index=*/false);
  CHECK_EQ(generations.Current(), 0);
  CHECK_EQ(WithGeneration(3, generations.Current()), 3);
}

SOK_TEST(DenseGradientsMayBeStaleOnceKeysHaveLostRows) {
  for (const bool is_replaced : {true, false}) {
    RowGenerations generations, other;
    generations.Replace(true);
    other.Replace(true);
    const auto lose_rows = [&] {
      is_replaced ? generations.Replace(true) : generations.Evict({2, 5});
    };
    const int64_t before = WithGeneration(2, generations.Current());
    lose_rows();
    CHECK_TRUE(!generations.MayDenseBeStale());  // there was none
    CHECK_TRUE(RowGenerations::MakeDense(1, &before).front() ==
               (is_replaced ? Meaning::kReplaced : Meaning::kEvicted));
    const std::vector<int64_t> ids = {WithGeneration(2, generations.Current()), 7, -3};
    for (const Meaning each : RowGenerations::MakeDense(3, ids.data())) {
      CHECK_TRUE(each == Meaning::kRow);
    }
    CHECK_TRUE(!generations.MayDenseBeStale());
    lose_rows();
    CHECK_TRUE(generations.MayDenseBeStale() && !other.MayDenseBeStale());
    other.NoteDense();
    CHECK_TRUE(!other.MayDenseBeStale());
    other.Replace(true);
    CHECK_TRUE(other.MayDenseBeStale());
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
