// SPDX-License-Identifier: Apache-2.0
// Tables on every engine: row ids, first values, limits, erasing and export are the same.
#include <random>

#include "ops/tests/conformance/engine_fixture.h"
#include "ops/tests/conformance/table_model.h"

namespace sok {
namespace {

using testing::Floats;
using testing::Ids;
using testing::OnAllEngines;
using testing::Options;
using testing::Size;
using testing::TableModel;
using testing::TestedEngine;
using testing::TestedTable;
using testing::Words;

void CheckSame(const TestedTable& table, const TableModel& model) {
  CHECK_EQ(table.num_keys(), model.num_keys());
  CHECK_EQ(table.num_rows(), model.num_rows());
  const TestedTable::Entries actual = table.Export();
  Ids keys;
  Ids row_ids;
  for (const auto& [row, key] : model.Entries()) {
    row_ids.push_back(row);
    keys.push_back(key);
  }
  CHECK_TRUE(actual.keys == keys);
  CHECK_TRUE(actual.row_ids == row_ids);
}

Ids Range(int64_t begin, int64_t end) {
  Ids keys;
  for (int64_t key = begin; key < end; ++key) keys.push_back(key);
  return keys;
}

SOK_TEST(RowsAreNumberedInTheOrderOfTheBatch) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 100));
    CHECK_TRUE(table.Find({7, 8}) == (Ids{kNoRow, kNoRow}));
    CHECK_TRUE(table.FindOrInsert({7, -7, 7, 9, -7}) == (Ids{0, 1, 0, 2, 1}));
    CHECK_TRUE(table.FindOrInsert({5, 9, 5, 7}) == (Ids{3, 2, 3, 0}));
    CHECK_TRUE(table.Find({9, 4, 7}) == (Ids{2, kNoRow, 0}));
    CHECK_EQ(table.num_keys(), 4);
    CHECK_EQ(table.num_rows(), 4);
    table.CheckIsFresh(-7, 1);
    table.CheckIsFresh(5, 3);
    const Ids any = {0, -1, INT64_MAX, INT64_MIN, UINT32_MAX, INT64_MAX - 1, -1, 0};
    CHECK_TRUE(table.FindOrInsert(any) == (Ids{4, 5, 6, 7, 8, 9, 5, 4}));
    table.CheckIsFresh(INT64_MIN, 7);
  });
}

SOK_TEST(RandomChangesFollowTheModel) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      const TableOptions options = Options(use_hash_index, 20'000, 4);
      const TestedTable table(engine, options);
      TableModel model(options);
      std::mt19937_64 random(1);
      const auto some_keys = [&](uint64_t most, uint64_t range) {
        Ids keys(1 + random() % most);
        for (int64_t& key : keys) {
          key = static_cast<int64_t>(random() % range) - (use_hash_index ? 7 : 0);
        }
        return keys;
      };
      for (uint64_t step = 0; step < 10; ++step) {
        const Ids keys = some_keys(3000, 400 + 2000 * step);  // and the table grows
        CHECK_TRUE(table.Find(keys) == model.Find(keys));
        CHECK_TRUE(table.TryFindThenFind(keys) == model.Find(keys));
        const Ids row_ids = table.FindOrInsert(keys);
        CHECK_TRUE(row_ids == model.FindOrInsert(keys));
        table.CheckIsFresh(keys.back(), row_ids.back());
        const Ids erased = some_keys(800, 20'000);
        CHECK_EQ(table.Erase(erased), model.Erase(erased));
        CheckSame(table, model);
      }
    }
  });
}

SOK_TEST(DistinctKeysNeedNoSecondLook) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      const TableOptions options = Options(use_hash_index, 200'000);
      const TestedTable table(engine, options);
      TableModel model(options);
      for (int64_t count = 100; count < 30'000; count = count * 5) {
        Ids keys;
        for (int64_t i = 0; i < count; ++i) keys.push_back(i * 7 % 199'999);
        CHECK_TRUE(table.FindOrInsert(keys, true) == model.FindOrInsert(keys));
      }
      CheckSame(table, model);
    }
  });
}

SOK_TEST(GivenRowsGoToNewKeysOnly) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      for (const int64_t dim : {1, 4}) {
        const TestedTable table(engine, Options(use_hash_index, 10, dim));
        table.FindOrInsert({3});
        Floats rows;
        for (int64_t i = 0; i < 5 * dim; ++i) rows.push_back(static_cast<float>(10 + i / dim));
        const Ids row_ids = table.FindOrInsert({4, 3, 5, 4, 5}, false, rows);
        const auto size = static_cast<size_t>(dim);
        CHECK_TRUE(table.Row(row_ids[0]) == Floats(size, 10.0f));  // the first row of a key counts
        CHECK_TRUE(table.Row(row_ids[2]) == Floats(size, 12.0f));
        table.CheckIsFresh(3, row_ids[1]);
        const Ids others = table.FindOrInsert({6, 3}, true, Floats(2 * size, 8.0f));
        CHECK_TRUE(table.Row(others[0]) == Floats(size, 8.0f));
        table.CheckIsFresh(3, others[1]);
      }
    }
  });
}

SOK_TEST(RowsMayBeLeftToTheCaller) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 10, 1));
    table.Reserve(2);
    testing::CallWithArrays arrays(engine);
    auto* row_ids = arrays.Empty<int64_t>(2);
    table.table().FindOrInsert(arrays.call(), {2, arrays.Upload(Ids{1, 2})}, {}, row_ids);
    CHECK_TRUE(arrays.Download(row_ids, 2) == (Ids{0, 1}));
    CHECK_TRUE(table.Row(1) == Floats{0.0f});
    CHECK_TRUE(table.Slot(1) == (Floats{0.0f, 0.0f}));
  });
}

SOK_TEST(GatherGivesRowsAndFirstValues) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      for (const int64_t dim : {1, 3, 8, 132}) {
        const TestedTable table(engine, Options(use_hash_index, 10'000, dim));
        Ids keys;
        for (int64_t key = 0; key < 100; ++key) keys.push_back(key * key);
        Floats expected;
        for (int64_t i = 0; i < 50 * dim; ++i) expected.push_back(static_cast<float>(i));
        table.FindOrInsert({keys.begin(), keys.begin() + 50}, true, expected);
        for (size_t i = 50; i < 100; ++i) {
          const Floats row = table.FirstValueOf(keys[i]);
          expected.insert(expected.end(), row.begin(), row.end());
        }
        CHECK_TRUE(table.Gather(keys) == testing::AsElements(expected));
        CHECK_EQ(table.num_keys(), 50);
      }
    }
  });
}

SOK_TEST(WithoutACapacityNobodyIsToldToRaiseIt) {
  CHECK_THROWS(ErrorCode::kOutOfCapacity,
               (Words{"table 'users' is full: one rank holds at most 4294967295 keys, it holds "
                      "4294967295, and 1 new keys came; use more ranks, or erase keys"}),
               ThrowFull(Options(true, kMaxRows), kMaxRows, kMaxRows, 0, 1));
}

SOK_TEST(AFullTableStaysAsItWas) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 5));
    table.FindOrInsert({1, 2, 3});
    const Words words = {
        "table 'users' is full: its capacity is 5 keys, it holds 3, and 3 new keys came; raise the "
        "capacity, or erase keys. The "
        "table is unchanged"};
    CHECK_THROWS(ErrorCode::kOutOfCapacity, words, table.FindOrInsert({1, 4, 5, 4, 6}));
    CHECK_EQ(table.num_keys(), 3);
    CHECK_EQ(table.num_rows(), 3);
    CHECK_TRUE(table.Find({1, 2, 3, 4, 5, 6}) == (Ids{0, 1, 2, kNoRow, kNoRow, kNoRow}));
    CHECK_TRUE(table.FindOrInsert({4, 5, 4, 1}) == (Ids{3, 4, 3, 0}));
    CHECK_TRUE(table.FindOrInsert({5, 5, 1, 2, 3, 4, 5}) == (Ids{4, 4, 0, 1, 2, 3, 4}));
    CHECK_THROWS(ErrorCode::kOutOfCapacity, (Words{"holds 5", "1 new"}), table.FindOrInsert({6}));
    CHECK_EQ(table.Erase({2, 2, 99}), 1);
    CHECK_TRUE(table.FindOrInsert({6}) == (Ids{1}));
    table.CheckIsFresh(6, 1);
  });
}

SOK_TEST(ErasedRowsAreReusedLastFirst) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 100));
    table.FindOrInsert({10, 11, 12, 13});
    for (int64_t row = 0; row < 4; ++row) table.WriteRow(row, 77.0f);
    CHECK_EQ(table.Erase({11, 99, 13, 11}), 2);
    CHECK_EQ(table.num_keys(), 2);
    CHECK_TRUE(table.Find({10, 11, 12, 13}) == (Ids{0, kNoRow, 2, kNoRow}));
    CHECK_TRUE(table.Export().keys == (Ids{10, 12}));
    CHECK_TRUE(table.Export().row_ids == (Ids{0, 2}));
    CHECK_TRUE(table.FindOrInsert({11, 20, 21}) == (Ids{3, 1, 4}));
    table.CheckIsFresh(11, 3);
    table.CheckIsFresh(20, 1);
    CHECK_EQ(table.num_rows(), 5);
    CHECK_TRUE(table.Row(0) == Floats(3, 77.0f));
  });
}

SOK_TEST(RowsAreExportedInBlocks) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      const TestedTable table(engine, Options(use_hash_index, 1000));
      CHECK_TRUE(table.ExportRows(0, 64).keys.empty());
      table.FindOrInsert(Range(0, 300));
      table.Erase({63, 64, 130});
      const TestedTable::Entries all = table.Export();
      Ids keys, row_ids;
      for (int64_t first = 0; first < 512; first += 128) {
        const TestedTable::Entries block = table.ExportRows(first, 128);
        keys.insert(keys.end(), block.keys.begin(), block.keys.end());
        row_ids.insert(row_ids.end(), block.row_ids.begin(), block.row_ids.end());
        CHECK_TRUE(block.row_ids.empty() || block.row_ids.front() / 128 == first / 128);
      }
      CHECK_TRUE(keys == all.keys);
      CHECK_TRUE(row_ids == all.row_ids);
      CHECK_EQ(static_cast<int64_t>(keys.size()), 297);
    }
  });
}

SOK_TEST(ClearForgetsEverything) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      const TestedTable table(engine, Options(use_hash_index, 40'000));
      table.FindOrInsert(Range(0, 40'000));
      table.Erase({1, 2, 3});
      table.Clear();
      CHECK_EQ(table.num_keys(), 0);
      CHECK_EQ(table.num_rows(), 0);
      CHECK_TRUE(table.Export().keys.empty());
      CHECK_TRUE(table.Find({0, 39'999}) == (Ids{kNoRow, kNoRow}));
      CHECK_TRUE(table.FindOrInsert({0, 1}) == (Ids{0, 1}));
      table.CheckIsFresh(0, 0);
    }
  });
}

SOK_TEST(FirstValuesAreTheKeysOwn) {
  using Kind = FirstValue::Kind;
  OnAllEngines([](const TestedEngine& engine) {
    for (const Kind kind :
         {Kind::kUniform, Kind::kNormal, Kind::kTruncatedNormal, Kind::kConstant}) {
      for (const int64_t dim : {1, 3, 8}) {
        TableOptions options = Options(true, 3000, dim);
        const int64_t period = dim == 1 ? 0 : 10;
        options.first_value = {kind, -0.5f, 0.25f, FirstValueStream(7, "t"), period};
        const TestedTable table(engine, options);
        Ids keys;
        for (int64_t i = -500; i < 500; ++i) keys.push_back(i * i * i * 982'451'653);
        const Ids row_ids = table.FindOrInsert(keys);
        for (size_t i = 0; i < keys.size(); i += 29) table.CheckIsFresh(keys[i], row_ids[i]);
      }
    }
  });
}

SOK_TEST(PresetRowsKeepWhatTheirMemoryHolds) {
  OnAllEngines([](const TestedEngine& engine) {
    TableOptions options = Options(true, 10);
    options.first_value.kind = FirstValue::Kind::kPreset;
    const TestedTable table(engine, options);
    table.Reserve(10);
    table.WriteRow(1, 6.0f);
    CHECK_TRUE(table.FindOrInsert({5, 8}) == (Ids{0, 1}));
    CHECK_TRUE(table.Row(0) == Floats(3, 0.0f));
    CHECK_TRUE(table.Row(1) == Floats(3, 6.0f));
    CHECK_TRUE(table.Slot(1) == Floats(2, testing::kSlotValue));
  });
}

SOK_TEST(RowsThatNobodyHasAreFound) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      const TestedTable table(engine, Options(use_hash_index, 100));
      table.FindOrInsert({0, 1});
      CHECK_EQ(table.FirstWithoutRow({0, 1}), 2);
      CHECK_EQ(table.FirstWithoutRow({0, 1, 2, -1}), 2);
      CHECK_EQ(table.FirstWithoutRow({-1, 5}), 0);
      CHECK_EQ(table.FirstWithoutRow({}), 0);
    }
  });
}

SOK_TEST(ReservedMemoryIsEnough) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 30'000));
    table.Reserve(20'000);
    const int64_t bytes = table.table().index_bytes();
    CHECK_TRUE(bytes >= 20'000 * 12 && bytes < 20'000 * 24);
    for (int64_t begin = 0; begin < 20'000; begin += 2000) {
      table.FindOrInsert(Range(begin, begin + 2000));
    }
    CHECK_EQ(table.table().index_bytes(), bytes);
    table.Reserve(1'000'000);  // no more than the capacity
    const int64_t most_bytes = table.table().index_bytes();
    CHECK_TRUE(most_bytes < 30'000 * 24);
    table.Reserve(1'000'000);
    CHECK_EQ(table.table().index_bytes(), most_bytes);
  });
}

SOK_TEST(AppendedKeysGetTheNextRows) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 30'000));
    table.Reserve(20'000);
    TableModel model(table.options());
    const auto append = [&](const Ids& keys) {
      const AppendedKeys appended = table.Append(keys);
      CHECK_EQ(appended.first_row, model.num_rows());
      CHECK_EQ(appended.num_repeated, 0);
      model.FindOrInsert(keys);
    };
    append({7, -7, INT64_MIN, INT64_MAX, 0});
    append({});
    append(Range(1'000, 11'000));  // more than one thread's
    CheckSame(table, model);
    CHECK_TRUE(table.FindOrInsert({5, 7}) == model.FindOrInsert({5, 7}));
    CheckSame(table, model);
  });
}

SOK_TEST(AppendedKeysThatAreRepeatedAreCounted) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const int64_t count : {4, 20'000}) {
      Ids keys = Range(0, count);
      keys.push_back(count / 2);
      const TestedTable table(engine, Options(true, 100'000));
      table.Reserve(100'000);
      CHECK_EQ(table.Append(keys).num_repeated, 1);
      table.Clear();
      CHECK_EQ(table.Append(Range(0, count)).num_repeated, 0);
      CHECK_EQ(table.Append({-1, count - 1, -2, 0}).num_repeated, 2);
    }
  });
}

SOK_TEST(KeysAreNotAppendedWhereTheyDoNotFit) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 3));
    CHECK_EQ(table.Append({1, 2}).num_repeated, 0);
    CHECK_THROWS(ErrorCode::kOutOfCapacity, (Words{"holds 2", "2 new"}), table.Append({3, 4}));
    CHECK_EQ(table.num_keys(), 2);
    const TestedTable direct(engine, Options(false, 3));
    CHECK_THROWS(ErrorCode::kFailedPrecondition, (Words{"hash index"}), direct.Append({1}));
  });
}

SOK_TEST(EmptyBatches) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      const TestedTable table(engine, Options(use_hash_index, 10));
      CHECK_TRUE(table.Find({}).empty());
      CHECK_TRUE(table.FindOrInsert({}).empty());
      CHECK_TRUE(table.Gather({}).empty());
      CHECK_TRUE(table.Export().keys.empty());
      CHECK_EQ(table.Erase({}), 0);
      table.Clear();
      CHECK_EQ(table.num_keys(), 0);
    }
  });
}

SOK_TEST(OptionsAreChecked) {
  OnAllEngines([](const TestedEngine& engine) {
    const auto check = [&](auto change, const Words& words) {
      TableOptions options = Options(true, 10);
      change(options);
      CHECK_THROWS(ErrorCode::kInvalidArgument, words, engine.engine.MakeTable(options));
    };
    check([](TableOptions& options) { options.dim = 0; }, {"'users'", "dim", "got 0"});
    check([](TableOptions& options) { options.dim = int64_t{1} << 62; },
          {"'users'", "dim must be at most 268435456", "got 4611686018427387904"});
    check([](TableOptions& options) { options.capacity = -1; }, {"capacity", "got -1"});
    check([](TableOptions& options) { options.placement.num_ranks = 0; }, {"world_size", "got 0"});
    check([](TableOptions& options) { options.placement.rank = 1; }, {"rank", "got 1"});
  });
}

SOK_TEST(HugeCapacitiesMayBeDeclared) {
  OnAllEngines([](const TestedEngine& engine) {
    const auto table = engine.engine.MakeTable(Options(true, INT64_MAX));
    testing::CallWithArrays arrays(engine);
    auto* row_ids = arrays.Empty<int64_t>(2);
    table->FindOrInsert(arrays.call(), {2, arrays.Upload(Ids{INT64_MIN, INT64_MAX})}, {}, row_ids);
    CHECK_TRUE(arrays.Download(row_ids, 2) == (Ids{0, 1}));
    CHECK_TRUE(table->index_bytes() < 10'000);
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
