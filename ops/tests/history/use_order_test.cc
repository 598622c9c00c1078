// SPDX-License-Identifier: Apache-2.0
// The order of last uses, beside one that sorts all keys each time.
#include "ops/history/use_order.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "ops/tests/check.h"

namespace sok {
namespace {

/// A table in which the key of row r is keys[r], last used at moments[r].
struct UsedTable {
  std::vector<int64_t> keys, row_ids, moments;
  int64_t num_exports = 0;

  std::vector<LastUse> First(UseOrder& order, int64_t count, int64_t before,
                             const std::vector<int64_t>& kept_rows = {}) {
    return order.First(
        count, before, kept_rows,
        [this](int64_t row_id) { return moments[static_cast<size_t>(row_id)]; },
        [this]() -> TableEntries {
          ++num_exports;
          return {static_cast<int64_t>(keys.size()), keys.data(), row_ids.data()};
        });
  }

  std::vector<int64_t> OldestKeys(int64_t count, int64_t before) const {
    std::vector<std::pair<int64_t, int64_t>> uses;
    for (size_t row = 0; row < keys.size(); ++row) {
      if (moments[row] < before) uses.emplace_back(moments[row], keys[row]);
    }
    std::sort(uses.begin(), uses.end());
    std::vector<int64_t> oldest;
    for (const auto& use : uses) {
      if (static_cast<int64_t>(oldest.size()) < count) oldest.push_back(use.second);
    }
    return oldest;
  }
};

UsedTable TableOf(int64_t num_keys) {
  UsedTable table;
  for (int64_t row = 0; row < num_keys; ++row) {
    table.keys.push_back((row * 7919) % num_keys);
    table.row_ids.push_back(row);
    table.moments.push_back(-1);
  }
  return table;
}

std::vector<int64_t> KeysOf(const std::vector<LastUse>& uses) {
  std::vector<int64_t> keys;
  for (const LastUse& use : uses) keys.push_back(use.key);
  return keys;
}

SOK_TEST(TheOldestComeFirstHoweverOftenKeysAreUsed) {
  constexpr int64_t kKeys = 20'000;
  UsedTable table = TableOf(kKeys);
  UseOrder order;
  std::mt19937_64 random(5);
  int64_t next_key = kKeys;
  for (int64_t moment = 1; moment < 300; ++moment) {
    for (int i = 0; i < 40; ++i) table.moments[random() % kKeys] = moment;
    const int64_t before = moment - static_cast<int64_t>(random() % 2);
    const std::vector<LastUse> oldest = table.First(order, 50, before);
    CHECK_TRUE(KeysOf(oldest) == table.OldestKeys(50, before));
    for (const LastUse& use : oldest) {  // other keys take their rows
      const auto row = static_cast<size_t>(use.row_id);
      CHECK_EQ(table.keys[row], use.key);
      table.keys[row] = next_key++;
      table.moments[row] = moment;
    }
  }
  CHECK_TRUE(table.num_exports < 20);
  CHECK_TRUE(order.num_bytes() < 100'000);
}

SOK_TEST(KeysThatComeWhileOthersAreUsedAreInOrderWithThem) {
  UsedTable table = TableOf(3);
  UseOrder order;
  table.keys = {8, 9, 7};
  table.moments = {1, 5, 5};
  CHECK_TRUE((KeysOf(table.First(order, 1, 5)) == std::vector<int64_t>{8}));
  table.keys[0] = 6;
  table.moments[0] = 5;
  CHECK_TRUE((KeysOf(table.First(order, 3, 6)) == std::vector<int64_t>{6, 7, 9}));
}

SOK_TEST(FewerThanAskedForAreAllThereAre) {
  UsedTable table = TableOf(5);
  UseOrder order;
  CHECK_EQ(table.First(order, 9, 0).size(), 5u);
  CHECK_EQ(table.First(order, 9, -1).size(), 0u);
  table.moments = {4, 3, 2, 4, 3};
  CHECK_TRUE((KeysOf(table.First(order, 3, 4)) == table.OldestKeys(3, 4)));
  CHECK_EQ(table.First(order, 4, 4).size(), 3u);
  CHECK_EQ(table.First(order, 4, 4, {1, 2}).size(), 1u);
  UsedTable empty = TableOf(0);
  UseOrder unused;
  CHECK_TRUE(empty.First(unused, 1, 9).empty());
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
