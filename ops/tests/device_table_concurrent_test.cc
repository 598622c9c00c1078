// SPDX-License-Identifier: Apache-2.0
// The device table against the CPU's: the same row ids, rows and errors. On CPU threads, or a GPU.
#include <algorithm>
#include <random>
#include <unordered_map>

#include "ops/tests/device_model.h"

namespace sok {
namespace {

using testing::CheckSame;
using testing::DeviceTableWithRows;
using testing::Ids;
using testing::Model;
using testing::Options;
using testing::Size;

/// `count` keys of which many are equal, from a range where both sides of zero are in.
Ids RandomKeys(std::mt19937_64& random, int64_t count, uint64_t range) {
  Ids keys(static_cast<size_t>(count));
  for (int64_t& key : keys) key = static_cast<int64_t>(random() % range) - 7;
  return keys;
}

SOK_TEST(AnyInt64IsAnOrdinaryKey) {
  DeviceTableWithRows table(Options(100));
  const Ids keys = {0, -1, INT64_MAX, INT64_MIN, UINT32_MAX, INT64_MAX - 1, -1, 0};
  CHECK_TRUE(table.Find(keys) == Ids(keys.size(), kNoRow));
  CHECK_TRUE(table.FindOrInsert(keys) == (Ids{0, 1, 2, 3, 4, 5, 1, 0}));
  CHECK_TRUE(table.Find(keys) == (Ids{0, 1, 2, 3, 4, 5, 1, 0}));
  for (int64_t row = 0; row < 6; ++row) table.CheckIsFresh(keys[static_cast<size_t>(row)], row);
}

SOK_TEST(RandomChangesMatchTheCpuTable) {
  const TableOptions options = Options(100'000, 4);
  DeviceTableWithRows table(options);
  Model model(options);
  std::mt19937_64 random(1);
  for (int64_t step = 0; step < 12; ++step) {
    const Ids keys = RandomKeys(random, 1 + static_cast<int64_t>(random() % 6000), 20'000);
    const Ids row_ids = table.FindOrInsert(keys);
    CHECK_TRUE(row_ids == model.FindOrInsert(keys));
    table.CheckIsFresh(keys.back(), row_ids.back());
    const Ids erased = RandomKeys(random, 1500, 20'000);
    CHECK_EQ(table.Erase(erased), model->Erase(Size(erased), erased.data()));
    CHECK_TRUE(table.Find(keys) == model.Find(keys));
    CheckSame(table, model);
  }
}

SOK_TEST(DistinctBatchesNeedNoSecondLook) {
  const TableOptions options = Options(1'000'000);
  DeviceTableWithRows table(options);
  Model model(options);
  for (int64_t begin = 0; begin < 100'000; begin = begin * 3 / 2 + 1000) {  // and grows the index
    Ids keys;
    for (int64_t i = 0; i < begin; ++i) keys.push_back(i * 1'000'003);
    CHECK_TRUE(table.FindOrInsert(keys, true) == model.FindOrInsert(keys));
  }
  CheckSame(table, model);
}

SOK_TEST(RowsGivenAtInsertionGoToNewKeysOnly) {
  for (const int64_t dim : {1, 4}) {
    DeviceTableWithRows table(Options(10, dim));
    table.FindOrInsert({1});
    std::vector<float> rows;
    for (int64_t i = 0; i < 4 * dim; ++i) rows.push_back(static_cast<float>(10 + i / dim));
    CHECK_TRUE(table.FindOrInsert({1, 2, 3, 2}, false, rows) == (Ids{0, 1, 2, 1}));
    table.CheckIsFresh(1, 0);
    CHECK_TRUE(table.Row(1) == std::vector<float>(static_cast<size_t>(dim), 11.0f));
    CHECK_TRUE(table.Row(2) == std::vector<float>(static_cast<size_t>(dim), 12.0f));
  }
}

SOK_TEST(GatherGivesRowsAndFirstValues) {
  for (const int64_t dim : {1, 3, 8, 132}) {
    DeviceTableWithRows table(Options(1000, dim));
    Ids keys;
    for (int64_t key = 0; key < 100; ++key) keys.push_back(key * key);
    std::vector<float> rows;
    for (int64_t i = 0; i < 50 * dim; ++i) rows.push_back(static_cast<float>(i));
    table.FindOrInsert({keys.begin(), keys.begin() + 50}, true, rows);
    const std::vector<float> gathered = table.Gather(keys);
    for (int64_t i = 0; i < 100 * dim; ++i) {
      std::vector<float> expected(static_cast<size_t>(dim), static_cast<float>(i));
      if (i >= 50 * dim) {
        WriteFirstValue(table.table.options().first_value, keys[static_cast<size_t>(i / dim)], dim,
                        expected.data());
      }
      const int64_t column = i >= 50 * dim ? i % dim : 0;
      CHECK_EQ(gathered[static_cast<size_t>(i)], expected[static_cast<size_t>(column)]);
    }
  }
}

SOK_TEST(FullTableRefusesTheWholeBatchAndNoMore) {
  DeviceTableWithRows table(Options(5));
  CHECK_TRUE(table.FindOrInsert({10, 11, 12}) == (Ids{0, 1, 2}));
  CHECK_THROWS(ErrorCode::kOutOfCapacity,
               (std::vector<std::string>{"'users'", "5 keys", "holds 3", "3 new keys"}),
               table.FindOrInsert({13, 10, 14, 13, 15}));
  CHECK_EQ(table.table.Counters({}).num_keys, 3);
  CHECK_TRUE(table.Find({10, 11, 12, 13, 14, 15}) == (Ids{0, 1, 2, -1, -1, -1}));
  CHECK_TRUE(table.FindOrInsert({13, 10, 14, 13, 14}) == (Ids{3, 0, 4, 3, 4}));
  CHECK_TRUE(table.FindOrInsert({14, 14, 10, 11, 12, 13, 10}) == (Ids{4, 4, 0, 1, 2, 3, 0}));
  CHECK_THROWS(ErrorCode::kOutOfCapacity, {}, table.FindOrInsert({99}));
  CHECK_EQ(table.Erase({11, 11, 98}), 1);
  CHECK_TRUE(table.FindOrInsert({99}) == (Ids{1}));
  table.CheckIsFresh(99, 1);
}

/// Every bucket is crossed and many keys share homes; at a load that only tests ask for.
SOK_TEST(CrowdedIndex) {
  const TableOptions options = Options(100'000);
  DeviceTableWithRows table(options, 95);
  Model model(options);
  std::mt19937_64 random(2);
  Ids keys(304);  // 64 buckets of 5, at 95 percent
  for (int64_t& key : keys) key = static_cast<int64_t>(random());
  CHECK_TRUE(table.FindOrInsert({keys.begin(), keys.begin() + 70}) ==
             model.FindOrInsert({keys.begin(), keys.begin() + 70}));
  for (int round = 0; round < 200; ++round) {  // old keys go, others come: no marks stay behind
    std::shuffle(keys.begin(), keys.end(), random);
    const Ids some(keys.begin(), keys.begin() + 150);
    CHECK_TRUE(table.FindOrInsert(some) == model.FindOrInsert(some));
    const Ids others(keys.begin() + 100, keys.begin() + 250);
    CHECK_EQ(table.Erase(others), model->Erase(Size(others), others.data()));
    CHECK_TRUE(table.Find(keys) == model.Find(keys));
  }
  CheckSame(table, model);
  CHECK_TRUE(table.NumPassed() > 0);
  table.Erase(keys);
  CHECK_EQ(table.NumPassed(), 0);
}

SOK_TEST(SmallBatchesGrowTheIndexInTime) {
  DeviceTableWithRows table(Options(100'000));
  for (int64_t batch = 0; batch < 60; ++batch) {
    Ids keys;
    for (int64_t i = 0; i < 40; ++i) keys.push_back(batch * 40 + i);
    table.FindOrInsert(keys, true);
    CHECK_TRUE((batch + 1) * 40 * 100 <= table.NumSlots() * 80);
  }
}

/// All slots of a small index, filled by threads that want the same ones.
SOK_TEST(InsertionsOfOneKernelMeet) {
  constexpr int64_t kBuckets = 13;
  constexpr int64_t kKeys = kBuckets * DeviceBucket::kSlots;
  testing::QueueForTests fixture;
  for (int64_t round = 0; round < 200; ++round) {
    Ids keys;
    for (int64_t i = 0; i < kKeys; ++i) keys.push_back(round * 1000 + i);
    const testing::DeviceArray<int64_t> device_keys(fixture.queue, keys);
    const testing::DeviceArray<int64_t> rows(fixture.queue, kKeys);
    const testing::DeviceArray<int64_t> counters(fixture.queue, Ids{0, 0});
    const testing::DeviceArray<DeviceBucket> buckets(fixture.queue, kBuckets);
    const DeviceIndex index{buckets.data(), kBuckets};
    {
      const QueueCall<testing::TestQueue> call(fixture.queue, {});
      fixture.queue.ForEach(kBuckets, ClearBuckets{buckets.data()});
      fixture.queue.ForEach(kKeys,
                            InsertNewKeys{index, device_keys.data(), nullptr, counters.data(),
                                          counters.data() + 1, rows.data()});
      fixture.queue.ForEach(kKeys, FindRows{index, device_keys.data(), rows.data()});
    }
    const Ids found = rows.ToHost();
    for (int64_t i = 0; i < kKeys; ++i) CHECK_EQ(found[static_cast<size_t>(i)], i);
  }
}

SOK_TEST(ReservedMemoryIsEnough) {
  DeviceTableWithRows table(Options(50'000));
  table.Reserve(40'000);
  const int64_t bytes = table.table.index_bytes();
  CHECK_TRUE(bytes >= 40'000 * 16 && bytes < 50'000 * 16);
  Ids keys;
  for (int64_t key = 0; key < 40'000; ++key) keys.push_back(key);
  for (auto begin = keys.begin(); begin != keys.end(); begin += 2000) {
    table.FindOrInsert({begin, begin + 2000});
  }
  CHECK_EQ(table.table.index_bytes(), bytes);
  CHECK_EQ(table.Find(keys).back(), 39'999);
  table.Reserve(1'000'000);  // no more than the capacity
  const int64_t most_bytes = table.table.index_bytes();
  table.Reserve(1'000'000);
  CHECK_EQ(table.table.index_bytes(), most_bytes);
}

SOK_TEST(ClearForgetsEverything) {
  DeviceTableWithRows table(Options(100'000));
  Ids keys;
  for (int64_t key = 0; key < 50'000; ++key) keys.push_back(key);
  table.FindOrInsert(keys);
  table.table.Clear({});
  CHECK_EQ(table.table.Counters({}).num_rows, 0);
  CHECK_TRUE(table.Export().keys.empty());
  CHECK_TRUE(table.Find({0, 49'999}) == (Ids{kNoRow, kNoRow}));
  CHECK_TRUE(table.FindOrInsert({49'999, 0}) == (Ids{0, 1}));
  table.CheckIsFresh(0, 1);
}

SOK_TEST(OptionsAndBatchesAreChecked) {
  const auto check = [](auto change, const std::vector<std::string>& words) {
    TableOptions options = Options(10);
    int max_load_percent = 80;
    change(options, max_load_percent);
    CHECK_THROWS(ErrorCode::kInvalidArgument, words,
                 DeviceTableWithRows(options, max_load_percent));
  };
  check([](TableOptions& options, int&) { options.rank = 1; }, {"'users'", "rank", "got 1"});
  check([](TableOptions&, int& load) { load = 96; }, {"'users'", "max_load_percent", "got 96"});
  DeviceTableWithRows table(Options(10));
  CHECK_TRUE(table.Find({}).empty());
  CHECK_TRUE(table.FindOrInsert({}).empty());
  CHECK_EQ(table.Erase({}), 0);
  CHECK_THROWS(ErrorCode::kInvalidArgument, (std::vector<std::string>{"'users'", "split"}),
               table.table.Find({}, (int64_t{1} << 30) + 1, nullptr, nullptr));
  table.FindOrInsert({1, 2});
  CHECK_THROWS(ErrorCode::kInvalidArgument, (std::vector<std::string>{"holds 2", "room for 1"}),
               table.table.Export({}, 1, nullptr, nullptr));
}

SOK_TEST(FirstValuesAreTheCpusBits) {
  using Kind = FirstValue::Kind;
  for (const Kind kind : {Kind::kUniform, Kind::kNormal, Kind::kTruncatedNormal, Kind::kConstant}) {
    for (const int64_t dim : {1, 3, 8}) {
      TableOptions options = Options(3000, dim);
      options.first_value = {kind, -0.5f, 0.25f, FirstValueStream(7, "t")};
      DeviceTableWithRows table(options);
      Ids keys;
      for (int64_t i = 0; i < 1000; ++i) keys.push_back(i * i * i * 982'451'653);
      const Ids row_ids = table.FindOrInsert(keys);
      for (size_t i = 0; i < keys.size(); i += 9) table.CheckIsFresh(keys[i], row_ids[i]);
    }
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
