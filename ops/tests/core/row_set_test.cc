// SPDX-License-Identifier: Apache-2.0
// RowSet: the same rows as a std::set, in order, after any changes.
#include "ops/cpu/index/row_set.h"

#include <chrono>
#include <random>
#include <set>
#include <vector>

#include "ops/tests/check.h"

namespace sok {
namespace {

std::vector<int64_t> Visited(const RowSet& set) {
  std::vector<int64_t> rows;
  set.ForEach([&](int64_t row) { rows.push_back(row); });
  return rows;
}

void CheckSame(const RowSet& set, const std::set<int64_t>& expected) {
  CHECK_TRUE(Visited(set) == std::vector<int64_t>(expected.begin(), expected.end()));
  for (const int64_t row : expected) {
    CHECK_TRUE((set.words()[row / RowSet::kRowsPerWord] & RowSet::Bit(row)) != 0);
  }
}

SOK_TEST(AsASet) {
  for (const int64_t num_rows : {1, 2, 63, 64, 65, 4095, 4096, 4097, 1 << 20}) {
    RowSet set(num_rows);
    std::set<int64_t> expected;
    std::mt19937_64 random(static_cast<uint64_t>(num_rows));
    for (int i = 0; i < 2000; ++i) {
      const auto row = static_cast<int64_t>(random() % static_cast<uint64_t>(num_rows));
      if (random() % 2 == 0) {
        set.Add(row);
        expected.insert(row);
      } else {
        CHECK_EQ(set.Remove(row), expected.erase(row) == 1);
      }
      if (i % 200 == 0) CheckSame(set, expected);
    }
    CheckSame(set, expected);
    set.Add(num_rows - 1);
    set.Clear();
    CheckSame(set, {});
    set.Add(num_rows - 1);
    CheckSame(set, {num_rows - 1});
  }
}

SOK_TEST(NoRows) { CheckSame(RowSet(0), {}); }

/// A scan of all words would take many seconds.
SOK_TEST(FewAmongVeryMany) {
  constexpr int64_t kRows = int64_t{1} << 40;
  RowSet set(kRows);
  std::set<int64_t> expected;
  for (int64_t row = 1; row < kRows; row *= 2) {
    set.Add(row);
    expected.insert(row);
  }
  const auto begin = std::chrono::steady_clock::now();
  CheckSame(set, expected);
  CHECK_TRUE(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
