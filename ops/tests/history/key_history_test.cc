// SPDX-License-Identifier: Apache-2.0
// Counts of keys: exact ones, those of a Bloom filter, and those of rows.
#include "ops/history/key_history.h"

#include <vector>

#include "ops/base/threads/executor.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

using Ids = std::vector<int64_t>;

HistoryOptions Filter(int64_t filter_freq, const BloomOptions& bloom = {}) {
  HistoryOptions options;
  options.is_kept = true;
  options.filter_freq = filter_freq;
  options.bloom = bloom;
  return options;
}

KeySeen SeenOf(const WaitingKeys& waiting, int64_t key) {
  KeySeen seen;
  waiting.Find(1, &key, &seen);
  return seen;
}

void Put(WaitingKeys* waiting, int64_t key, const KeySeen& seen) {
  waiting->Reserve(SerialExecutor(), 1);
  waiting->Put(SerialExecutor(), 1, &key, &seen);
}

SOK_TEST(ExactCountsUsePlacesAgain) {
  const auto waiting = MakeExactCounts();
  for (int64_t round = 0; round < 20; ++round) {
    for (int64_t key = 0; key < 500; ++key) Put(waiting.get(), round * 1000 + key, {key, round});
    CHECK_EQ(SeenOf(*waiting, round * 1000 + 7).count, 7);
    CHECK_EQ(SeenOf(*waiting, round * 1000 + 7).step, round);
    Put(waiting.get(), round * 1000 + 7, {70, round});
    CHECK_EQ(SeenOf(*waiting, round * 1000 + 7).count, 70);
    for (int64_t key = 0; key < 500; ++key) waiting->Erase(round * 1000 + key);
    waiting->Erase(5);  // is gone
  }
  CHECK_EQ(SeenOf(*waiting, 19'007).step, -1);
  Ids keys;
  std::vector<KeySeen> seen;
  waiting->Export(0, waiting->num_places(), &keys, &seen);
  CHECK_TRUE(keys.empty());
  CHECK_EQ(waiting->num_places(), 500);
  CHECK_TRUE(waiting->num_bytes() < 64 * 1024);
}

SOK_TEST(BloomCountsAreNeverTooLow) {
  for (const int64_t counter_bytes : {1, 2, 4, 8}) {
    const auto waiting = MakeBloomCounts({9586, 7, counter_bytes});  // 1000 keys, 1 %
    const bool are_exact = counter_bytes == 8;                       // these take less
    for (int64_t key = 0; key < 1000; ++key) Put(waiting.get(), key * 31, {key % 50, 3});
    for (int64_t key = 0; key < 1000; ++key) {
      CHECK_TRUE(SeenOf(*waiting, key * 31).count >= key % 50);
    }
    int64_t num_wrong = 0;
    for (int64_t key = 0; key < 10'000; ++key) num_wrong += SeenOf(*waiting, -1 - key).count > 0;
    CHECK_TRUE(are_exact ? num_wrong == 0 : num_wrong > 0 && num_wrong < 200);
    CHECK_TRUE(waiting->num_bytes() <= 9586 * counter_bytes);
    CHECK_EQ(SeenOf(*waiting, 31).step, -1);
  }
}

SOK_TEST(ABloomFilterExportsKeysThatNeverGotARowWhileCountsAreExact) {
  for (const int64_t num_counters : {100'000, 100}) {
    const bool are_exact = num_counters > 100;
    const auto waiting = MakeBloomCounts({num_counters, 2, 4});
    for (const int64_t key : {5, 6, 7}) Put(waiting.get(), key, {key, 9});
    for (int i = 0; i < 2; ++i) waiting->Admit(6, 3);
    Put(waiting.get(), 6, {8, 9});
    CHECK_EQ(SeenOf(*waiting, 6).count, 8);
    CHECK_EQ(SeenOf(*waiting, 6).step, -1);
    Ids keys;
    std::vector<KeySeen> seen;
    waiting->Export(0, waiting->num_places(), &keys, &seen);
    CHECK_TRUE((keys == (are_exact ? Ids{5, 7} : Ids{})));
    CHECK_EQ(waiting->num_keys(), are_exact ? 2 : 0);
    if (are_exact) CHECK_TRUE(seen[1].count == 7 && seen[1].step == -1);
  }
}

SOK_TEST(ABloomCounterThatIsFullStaysFull) {
  for (const int64_t num_counters : {100, 100'000}) {  // a filter, and exact counts in its place
    const auto waiting = MakeBloomCounts({num_counters, 2, 1});
    Put(waiting.get(), 5, {400, 0});
    CHECK_EQ(SeenOf(*waiting, 5).count, 255);
    Put(waiting.get(), 5, {3, 0});
    CHECK_EQ(SeenOf(*waiting, 5).count, 255);
  }
}

SOK_TEST(AFilterForManyKeysTakesMemoryByTheKeysThatCame) {
  const auto waiting = MakeBloomCounts({int64_t{1} << 33, 7, 8});  // 64 GiB
  for (int64_t key = 0; key < 1000; ++key) Put(waiting.get(), key, {key, 3});
  for (int64_t key = 0; key < 2000; key += 2) waiting->Admit(key, 4);
  CHECK_EQ(SeenOf(*waiting, 999).count, 999);
  CHECK_EQ(SeenOf(*waiting, 2).count, 4);
  CHECK_EQ(SeenOf(*waiting, 1998).count, 4);
  CHECK_EQ(SeenOf(*waiting, 1999).count, 0);
  CHECK_TRUE(waiting->num_bytes() < 200'000);
}

SOK_TEST(ARowWithoutAHistoryHasBeenAdmitted) {
  KeyHistory history(Filter(3));
  history.Count(7, 2, 6);
  CHECK_EQ(history.OfRow(7).count, 5);
  CHECK_EQ(history.OfRow(7).step, 6);
  CHECK_EQ(history.OfRow(5).count, 3);
  CHECK_EQ(history.OfRow(5).step, -1);
}

SOK_TEST(UsesAreMoments) {
  HistoryOptions options;
  options.is_kept = true;
  options.max_keys = 100'000;
  KeyHistory history(options);
  const auto executor = MakeThreadExecutor(3);
  std::vector<int64_t> rows;
  for (int64_t row = 99'999; row >= 0; row -= 2) rows.push_back(row);
  for (int64_t i = 1; i < 50'000; i += 1000) rows[static_cast<size_t>(i)] = 77'777;  // repeated
  rows[5] = kNoRow;
  history.Use(*executor, 50'000, rows.data(), 7);
  history.Use(*executor, 3, std::vector<int64_t>{1, kNoRow, 1}.data(), 8);
  history.Use(*executor, 1, std::vector<int64_t>{kNoRow}.data(), 9);
  std::vector<int64_t> expected(100'000, -1);
  for (const int64_t row : rows) {
    if (row != kNoRow) expected[static_cast<size_t>(row)] = 7;
  }
  expected[1] = 8;
  for (int64_t row = 0; row < 100'000; ++row) {
    CHECK_EQ(history.OfRow(row).step, expected[static_cast<size_t>(row)]);
    CHECK_EQ(history.OfRow(row).count, 0);
  }
}

SOK_TEST(SizesOfBloomFiltersAreChecked) {
  CheckHistoryOptions(Filter(3, {10, 2, 4}));
  for (const BloomOptions& wrong : {BloomOptions{10, 0, 4}, BloomOptions{10, 65, 4},
                                    BloomOptions{10, 2, 3}, BloomOptions{-1, 2, 4}}) {
    CHECK_THROWS(ErrorCode::kInvalidArgument, (std::vector<std::string>{"Bloom filter"}),
                 CheckHistoryOptions(Filter(3, wrong)));
  }
  CheckHistoryOptions(Filter(255, {10, 2, 1}));
  CHECK_THROWS(ErrorCode::kInvalidArgument,
               (std::vector<std::string>{"1 bytes count up to 255", "filter_freq, 256"}),
               CheckHistoryOptions(Filter(256, {10, 2, 1})));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
