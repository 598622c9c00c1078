// SPDX-License-Identifier: Apache-2.0
// The device table without a hash index against the CPU's: the same row ids, rows and errors.
#include <random>

#include "ops/tests/device_model.h"

namespace sok {
namespace {

using testing::CheckSame;
using testing::DeviceTableWithRows;
using testing::Ids;
using testing::Model;
using testing::Size;

/// Of the second of `world_size` ranks, if there are so many.
TableOptions Direct(int64_t capacity, int64_t world_size, int64_t dim = 3) {
  TableOptions options = testing::Options(capacity, dim);
  options.use_hash_index = false;
  options.world_size = world_size;
  options.rank = world_size > 1 ? 1 : 0;
  return options;
}

SOK_TEST(RandomChangesMatchTheCpuTable) {
  for (const int64_t world_size : {1, 3}) {
    const TableOptions options = Direct(10'000, world_size, 4);
    DeviceTableWithRows table(options);
    Model model(options);
    std::mt19937_64 random(1);
    const auto keys_below = [&](int64_t num_keys, int64_t num_rows) {
      Ids keys(static_cast<size_t>(num_keys));
      for (int64_t& key : keys) {
        key = static_cast<int64_t>(random() % static_cast<uint64_t>(num_rows)) * world_size +
              options.rank;
      }
      return keys;
    };
    for (int64_t step = 0; step < 10; ++step) {
      const Ids keys = keys_below(1 + 300 * step, 100 + 1100 * step);  // and the table grows
      CHECK_TRUE(table.Find(keys) == model.Find(keys));
      const Ids row_ids = table.FindOrInsert(keys);
      CHECK_TRUE(row_ids == model.FindOrInsert(keys));
      table.CheckIsFresh(keys.back(), row_ids.back());
      const Ids erased = keys_below(200, 10'000);
      CHECK_EQ(table.Erase(erased), model->Erase(Size(erased), erased.data()));
      CheckSame(table, model);
    }
  }
}

SOK_TEST(RowsAreWrittenWhenAKeyComesAndNotAgain) {
  DeviceTableWithRows table(Direct(100, 1, 1));
  CHECK_TRUE(table.FindOrInsert({7, 99, 7}, false, {1, 2, 3}) == (Ids{7, 99, 7}));
  CHECK_TRUE(table.FindOrInsert({99, 0}, true, {5, 6}) == (Ids{99, 0}));
  const std::vector<float> rows = table.Gather({99, 0, 7, 50});
  CHECK_TRUE((std::vector<float>{rows.begin(), rows.begin() + 3}) == (std::vector<float>{2, 6, 1}));
  std::vector<float> first_value(1);
  WriteFirstValue(table.table.options().first_value, 50, 1, first_value.data());
  CHECK_EQ(rows[3], first_value[0]);
  CHECK_TRUE(table.Export().row_ids == (Ids{0, 7, 99}));
  CHECK_EQ(table.Erase({7, 7, 50}), 1);
  table.FindOrInsert({7});
  table.CheckIsFresh(7, 7);
  table.Reserve(1000);  // no more than the capacity
  table.table.Clear({});
  CHECK_TRUE(table.Find({7, 0}) == (Ids{kNoRow, kNoRow}));
  CHECK_EQ(table.table.Counters({}).num_rows, 0);
  CHECK_TRUE(table.FindOrInsert({99}) == Ids{99});
}

SOK_TEST(AForeignKeyIsNamedAndChangesNothing) {
  const TableOptions options = Direct(10, 3);
  DeviceTableWithRows table(options);
  Model model(options);
  table.FindOrInsert({1, 4});
  for (const int64_t foreign : {int64_t{5}, int64_t{-2}, int64_t{30}, INT64_MAX, INT64_MIN}) {
    const Ids keys = {7, foreign, 28, -5};
    std::string expected;
    try {
      model.Find(keys);
    } catch (const Error& error) {
      expected = error.what();
    }
    const std::vector<std::string> words = {expected, std::to_string(foreign)};
    CHECK_THROWS(ErrorCode::kInvalidArgument, words, table.Find(keys));
    CHECK_THROWS(ErrorCode::kInvalidArgument, words, table.FindOrInsert(keys));
    CHECK_THROWS(ErrorCode::kInvalidArgument, words, table.Gather(keys));
    CHECK_THROWS(ErrorCode::kInvalidArgument, words, table.Erase(keys));
    CHECK_TRUE(table.Export().keys == (Ids{1, 4}));
  }
}

SOK_TEST(ACapacityBeyondRowIdsIsRefused) {
  CHECK_THROWS(ErrorCode::kInvalidArgument, (std::vector<std::string>{"'users'", "below 2^31"}),
               DeviceTableWithRows(Direct(int64_t{1} << 31, 1)));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
