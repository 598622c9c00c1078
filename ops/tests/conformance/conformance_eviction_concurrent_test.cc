// SPDX-License-Identifier: Apache-2.0
// Eviction on every engine: rows of evicted keys are not reused before they are returned.
#include <atomic>
#include <deque>
#include <random>
#include <thread>

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

SOK_TEST(RowsOfEvictedKeysAreKept) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 100));
    table.FindOrInsert({10, 11, 12, 13});
    for (int64_t row = 0; row < 4; ++row) table.WriteRow(row, 77.0f);
    CHECK_EQ(table.Evict({13, 99, 11, 13}), 2);
    CHECK_EQ(table.num_keys(), 2);
    CHECK_EQ(table.num_rows(), 4);
    CHECK_TRUE(table.Find({10, 11, 12, 13}) == (Ids{0, kNoRow, 2, kNoRow}));
    CHECK_TRUE(table.Export().keys == (Ids{10, 12}));
    CHECK_TRUE(table.FindOrInsert({11, 20}) == (Ids{4, 5}));
    CHECK_TRUE(table.Row(1) == Floats(3, 77.0f) && table.Row(3) == Floats(3, 77.0f));
    CHECK_EQ(table.Evict({10}), 1);
    table.ReturnRows(2);
    CHECK_TRUE(table.FindOrInsert({30, 31, 32}) == (Ids{1, 3, 6}));
    table.CheckIsFresh(30, 1);
    table.CheckIsFresh(31, 3);
    CHECK_TRUE(table.Row(0) == Floats(3, 77.0f));
    table.ReturnRows(9);  // there is only one
    CHECK_TRUE(table.FindOrInsert({33, 34}) == (Ids{0, 7}));
  });
}

SOK_TEST(AFullTableCountsKeptRows) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 4));
    table.FindOrInsert({1, 2, 3, 4});
    CHECK_EQ(table.Evict({1, 2}), 2);
    CHECK_THROWS(ErrorCode::kOutOfCapacity, (Words{"holds 2", "2 rows of evicted", "1 new"}),
                 table.FindOrInsert({5}));
    table.ReturnRows(1);
    CHECK_TRUE(table.FindOrInsert({5}) == (Ids{0}));
    CHECK_THROWS(ErrorCode::kOutOfCapacity, (Words{"holds 3", "1 rows of evicted", "1 new"}),
                 table.FindOrInsert({6}));
    table.Clear();
    CHECK_TRUE(table.FindOrInsert({6, 7, 8, 9}) == (Ids{0, 1, 2, 3}));
  });
}

SOK_TEST(WithoutAHashIndexARowIsItsKeysForGood) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(false, 8));
    table.FindOrInsert({1, 5});
    CHECK_EQ(table.Evict({5, 2}), 1);
    table.ReturnRows(3);
    CHECK_TRUE(table.FindOrInsert({5, 0}) == (Ids{5, 0}));
    table.CheckIsFresh(5, 5);
  });
}

SOK_TEST(RandomEvictionsFollowTheModel) {
  OnAllEngines([](const TestedEngine& engine) {
    const TableOptions options = Options(true, 200'000, 4);
    const TestedTable table(engine, options);
    TableModel model(options);
    std::mt19937_64 random(3);
    std::deque<int64_t> kept;
    const auto some_keys = [&](uint64_t most, uint64_t range) {
      Ids keys(1 + random() % most);
      for (int64_t& key : keys) key = static_cast<int64_t>(random() % range);
      return keys;
    };
    for (uint64_t step = 0; step < 12; ++step) {
      const Ids keys = some_keys(3000, 4000);
      const Ids row_ids = table.FindOrInsert(keys);
      CHECK_TRUE(row_ids == model.FindOrInsert(keys));
      table.CheckIsFresh(keys.back(), row_ids.back());
      const Ids evicted = some_keys(3000, 4000);
      kept.push_back(model.Evict(evicted));
      CHECK_EQ(table.Evict(evicted), kept.back());
      const Ids erased = some_keys(200, 4000);
      CHECK_EQ(table.Erase(erased), model.Erase(erased));
      if (step % 3 == 0) continue;
      table.ReturnRows(kept.front());
      model.ReturnRows(kept.front());
      kept.pop_front();
      CHECK_EQ(table.num_keys(), model.num_keys());
      CHECK_EQ(table.num_rows(), model.num_rows());
    }
  });
}

/// Readers with row ids see the row of their key, or its last contents, never another key's
/// row.
SOK_TEST(ReadersBesideEvictionSeeNoOtherKeysRow) {
  static constexpr int64_t kKeys = 400;
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 100'000));
    std::atomic<int64_t> num_kept{0};
    std::atomic<bool> is_done{false};
    Ids keys;
    for (int64_t key = 0; key < kKeys; ++key) keys.push_back(key);
    const Ids row_ids = table.FindOrInsert(keys);  // a step that never ends
    std::thread evicting([&] {
      for (int64_t round = 1; round <= 12; ++round) {
        num_kept += table.Evict(keys);
        Ids others;
        for (int64_t i = 0; i < kKeys; ++i) others.push_back(round * kKeys + i);
        const Ids rows_of_others = table.FindOrInsert(others);
        for (const int64_t row : rows_of_others) CHECK_TRUE(row >= kKeys);
        table.Evict(others);
      }
      is_done = true;
    });
    while (!is_done) {
      for (int64_t key = 0; key < kKeys; key += 39) {
        table.CheckIsFresh(key, row_ids[static_cast<size_t>(key)]);
      }
    }
    evicting.join();
    CHECK_EQ(num_kept.load(), kKeys);
    table.ReturnRows(kKeys);
    const Ids reused = table.FindOrInsert({-1, -2});
    for (const int64_t row : reused) CHECK_TRUE(row < kKeys);
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
