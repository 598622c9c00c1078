// SPDX-License-Identifier: Apache-2.0
// Both CPU tables, one thread: row ids, first values, limits, erasing, export.
#include <algorithm>
#include <random>
#include <unordered_map>

#include "ops/tests/table_fixture.h"

namespace sok {
namespace {

using testing::Options;
using testing::TableWithRows;
using Ids = std::vector<int64_t>;
using Words = std::vector<std::string>;

SOK_TEST(HashTableNumbersRowsInTheOrderOfTheBatch) {
  const TableWithRows table(Options(true, 10));
  CHECK_TRUE(table.Find({7, 8}) == (Ids{kNoRow, kNoRow}));
  CHECK_TRUE(table.FindOrInsert({7, -7, 7, 9, -7}) == (Ids{0, 1, 0, 2, 1}));
  CHECK_TRUE(table.FindOrInsert({5, 9, 5, 7}) == (Ids{3, 2, 3, 0}));
  CHECK_TRUE(table.Find({9, 4, 7}) == (Ids{2, kNoRow, 0}));
  CHECK_EQ(table->size(), 4);
  CHECK_EQ(table->num_rows(), 4);
  table.CheckIsFresh(-7, 1);
  table.CheckIsFresh(5, 3);
}

SOK_TEST(DirectTableDividesTheKey) {
  TableOptions options = Options(false, 5);
  options.world_size = 3;
  options.rank = 1;
  const TableWithRows table(options);
  CHECK_TRUE(table.Find({1, 13}) == (Ids{kNoRow, kNoRow}));
  CHECK_TRUE(table.FindOrInsert({13, 1, 13}) == (Ids{4, 0, 4}));
  CHECK_TRUE(table.Find({1, 4, 13}) == (Ids{0, kNoRow, 4}));
  CHECK_EQ(table->size(), 2);
  CHECK_EQ(table->num_rows(), 5);
  table.CheckIsFresh(13, 4);
  const TableEntries entries = table->Export();
  CHECK_TRUE(entries.keys == (Ids{1, 13}));
  CHECK_TRUE(entries.row_ids == (Ids{0, 4}));
}

SOK_TEST(DirectTableRefusesForeignKeys) {
  TableOptions options = Options(false, 5);
  options.world_size = 3;
  options.rank = 1;
  const TableWithRows table(options);
  const auto check = [&](int64_t key, const Words& words) {
    CHECK_THROWS(ErrorCode::kInvalidArgument, words, table.Find({1, key}));
    CHECK_THROWS(ErrorCode::kInvalidArgument, words, table.FindOrInsert({1, key}));
    CHECK_THROWS(ErrorCode::kInvalidArgument, words, table.Erase({1, key}));
    CHECK_EQ(table->size(), 0);
  };
  check(15, {"'users'", "key 15", "0 to 14", "max_vocabulary_size_per_gpu", "use_hashtable=True"});
  check(16, {"key 16", "0 to 14"});
  check(-2, {"key -2", "0 to 14"});
  check(INT64_MIN, {"0 to 14"});
  check(INT64_MAX, {"0 to 14"});
  check(2, {"key 2", "rank 2 of 3", "this is rank 1"});
}

SOK_TEST(EveryFirstValueIsTheKeysOwn) {
  const TableWithRows one_batch(Options(true, 1000));
  const TableWithRows backwards(Options(true, 1000));
  const TableWithRows direct(Options(false, 1000));
  Ids keys;
  for (int64_t key = 0; key < 1000; ++key) keys.push_back(key);
  one_batch.FindOrInsert(keys);
  direct->InsertAll(SerialExecutor(), direct.planes());
  CHECK_EQ(direct->size(), 1000);
  for (int64_t key = 999; key >= 0; --key) backwards.FindOrInsert({key});
  for (int64_t key = 0; key < 1000; ++key) {
    one_batch.CheckIsFresh(key, key);
    direct.CheckIsFresh(key, key);
    backwards.CheckIsFresh(key, 999 - key);
  }
}

SOK_TEST(InitialRowsGoToNewKeysOnly) {
  for (const bool use_hash_index : {true, false}) {
    const TableWithRows table(Options(use_hash_index, 10, 1));
    table.FindOrInsert({3});
    const std::vector<float> rows = {10, 11, 12, 13, 14};
    const Ids row_ids = table.FindOrInsert({4, 3, 5, 4, 5}, rows.data());
    CHECK_EQ(table.rows(row_ids[0])[0], 10.0f);  // the first of its key counts
    CHECK_EQ(table.rows(row_ids[2])[0], 12.0f);
    table.CheckIsFresh(3, row_ids[1]);
  }
}

SOK_TEST(DistinctKeysAreNotComparedAgain) {
  for (const bool use_hash_index : {true, false}) {
    const TableWithRows table(Options(use_hash_index, 1000, 3));
    const TableWithRows expected(Options(use_hash_index, 1000, 3));
    table.FindOrInsert({3, 8});
    expected.FindOrInsert({3, 8});
    const Ids keys = {9, 8, 500, 3, 7};
    const std::vector<float> rows(15, 2.0f);
    CHECK_TRUE(table.FindOrInsertDistinct(keys) == expected.FindOrInsert(keys));
    CHECK_TRUE(table.FindOrInsertDistinct({11, 9}, rows.data()) == expected.FindOrInsert({11, 9}));
    CHECK_EQ(table.rows(table.Find({11})[0])[2], 2.0f);
    for (const int64_t key : keys) table.CheckIsFresh(key, table.Find({key})[0]);
  }
}

SOK_TEST(RowsMayBeLeftToTheCaller) {
  const TableWithRows table(Options(true, 10, 1));
  const Ids keys = {1, 2};
  Ids row_ids(2);
  table->FindOrInsert(SerialExecutor(), 2, keys.data(), false, nullptr, RowPlanes{},
                      row_ids.data());
  CHECK_TRUE(row_ids == (Ids{0, 1}));
  CHECK_EQ(table.rows(0)[0], 0.0f);
}

SOK_TEST(AFullTableStaysAsItWas) {
  const TableWithRows table(Options(true, 5));
  table.FindOrInsert({1, 2, 3});
  const Words words = {"'users'", "capacity is 5", "holds 3", "3 new keys",
                       "max_vocabulary_size_per_gpu"};
  CHECK_THROWS(ErrorCode::kOutOfCapacity, words, table.FindOrInsert({1, 4, 5, 4, 6}));
  CHECK_EQ(table->size(), 3);
  CHECK_TRUE(table.Find({1, 2, 3, 4, 5, 6}) == (Ids{0, 1, 2, kNoRow, kNoRow, kNoRow}));
  CHECK_TRUE(table.FindOrInsert({4, 5, 4, 1}) == (Ids{3, 4, 3, 0}));
  CHECK_THROWS(ErrorCode::kOutOfCapacity, (Words{"holds 5", "1 new"}), table.FindOrInsert({6}));
  CHECK_EQ(table.Erase({2}), 1);
  CHECK_TRUE(table.FindOrInsert({6}) == (Ids{1}));
}

SOK_TEST(ErasedRowsAreReused) {
  const TableWithRows table(Options(true, 100));
  table.FindOrInsert({10, 11, 12, 13});
  for (int64_t row = 0; row < 4; ++row) table.rows(row)[0] = table.slot(row)[0] = 77.0f;
  CHECK_EQ(table.Erase({11, 99, 13, 11}), 2);
  CHECK_EQ(table->size(), 2);
  CHECK_TRUE(table.Find({10, 11, 12, 13}) == (Ids{0, kNoRow, 2, kNoRow}));
  const TableEntries entries = table->Export();
  CHECK_TRUE(entries.keys == (Ids{10, 12}));
  CHECK_TRUE(entries.row_ids == (Ids{0, 2}));
  Ids row_ids = table.FindOrInsert({11, 20, 21});
  table.CheckIsFresh(11, row_ids[0]);
  table.CheckIsFresh(20, row_ids[1]);
  CHECK_EQ(row_ids[2], 4);
  std::sort(row_ids.begin(), row_ids.end());
  CHECK_TRUE(row_ids == (Ids{1, 3, 4}));
  CHECK_EQ(table->num_rows(), 5);
  CHECK_EQ(table.rows(0)[0], 77.0f);
}

SOK_TEST(DirectTableForgetsAndFindsAgain) {
  const TableWithRows table(Options(false, 1000));
  table.FindOrInsert({3, 500, 999});
  table.rows(500)[0] = 77.0f;
  CHECK_EQ(table.Erase({500, 4, 500}), 1);
  CHECK_TRUE(table.Find({3, 500, 999}) == (Ids{3, kNoRow, 999}));
  CHECK_TRUE(table->Export().keys == (Ids{3, 999}));
  table.FindOrInsert({500});
  table.CheckIsFresh(500, 500);
}

SOK_TEST(ClearForgetsEverything) {
  for (const bool use_hash_index : {true, false}) {
    const TableWithRows table(Options(use_hash_index, 100'000));
    Ids keys;
    for (int64_t key = 0; key < 100'000; ++key) keys.push_back(key);
    table.FindOrInsert(keys);
    table->Clear();
    CHECK_EQ(table->size(), 0);
    CHECK_EQ(table->num_rows(), 0);
    CHECK_TRUE(table->Export().keys.empty());
    CHECK_TRUE(table.Find({0, 99'999}) == (Ids{kNoRow, kNoRow}));
    CHECK_TRUE(table.FindOrInsert({0, 1}) == (Ids{0, 1}));
  }
}

SOK_TEST(HugeCapacitiesMayBeDeclared) {
  TableOptions options = Options(true, INT64_MAX);
  const auto table = Table::Create(Device::kCpu, options);
  const Ids keys = {INT64_MIN, INT64_MAX};
  Ids row_ids(2);
  table->FindOrInsert(SerialExecutor(), 2, keys.data(), false, nullptr, {}, row_ids.data());
  CHECK_TRUE(row_ids == (Ids{0, 1}));
  CHECK_TRUE(table->index_bytes() < 10'000);

  options = Options(false, int64_t{1} << 40);
  options.world_size = 1 << 20;
  const auto direct = Table::Create(Device::kCpu, options);
  const int64_t key = (int64_t{1} << 60) - (1 << 20);
  int64_t row_id = 0;
  direct->FindOrInsert(SerialExecutor(), 1, &key, false, nullptr, {}, &row_id);
  CHECK_EQ(row_id, (int64_t{1} << 40) - 1);
}

SOK_TEST(OptionsAreChecked) {
  const auto check = [](auto change, const Words& words) {
    TableOptions options = Options(true, 10);
    change(options);
    CHECK_THROWS(ErrorCode::kInvalidArgument, words, Table::Create(Device::kCpu, options));
  };
  check([](TableOptions& options) { options.dim = 0; }, {"'users'", "dim", "got 0"});
  check([](TableOptions& options) { options.capacity = -1; }, {"capacity", "got -1"});
  check([](TableOptions& options) { options.world_size = 0; }, {"world_size", "got 0"});
  check([](TableOptions& options) { options.rank = 1; }, {"rank", "got 1"});
}

SOK_TEST(EmptyBatches) {
  for (const bool use_hash_index : {true, false}) {
    const TableWithRows table(Options(use_hash_index, 10));
    CHECK_TRUE(table.Find({}).empty());
    CHECK_TRUE(table.FindOrInsert({}).empty());
    CHECK_EQ(table.Erase({}), 0);
  }
}

SOK_TEST(ManyThreadsGiveTheSameAsOne) {
  const auto threads = MakeThreadExecutor(4);
  const TableWithRows serial(Options(true, 200'000, 1));
  const TableWithRows parallel(Options(true, 200'000, 1));
  std::mt19937_64 random(4);
  for (int batch = 0; batch < 5; ++batch) {
    Ids keys(50'000);
    for (int64_t& key : keys) key = static_cast<int64_t>(random() % 100'000);
    CHECK_TRUE(serial.FindOrInsert(keys) == parallel.FindOrInsert(keys, nullptr, *threads));
  }
  CHECK_TRUE(serial->Export().keys == parallel->Export().keys);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
