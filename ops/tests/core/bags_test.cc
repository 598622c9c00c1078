// SPDX-License-Identifier: Apache-2.0
// Bags: row splits from indices, checks, and batches without anything to add up.
#include "ops/engine/bags.h"

#include <numeric>
#include <string>
#include <vector>

#include "ops/tests/check.h"

namespace sok {
namespace {

SOK_TEST(OneToOneInOrder) {
  const auto is_one_to_one = [](const std::vector<int32_t>& inverse, int64_t num_distinct) {
    Bags bags;
    bags.num_keys = bags.num_bags = static_cast<int64_t>(inverse.size());
    bags.num_distinct = num_distinct;
    bags.inverse = inverse.data();
    return IsOneToOneInOrder(bags);
  };
  CHECK_TRUE(is_one_to_one({}, 0));
  CHECK_TRUE(is_one_to_one({0, 1, 2}, 3));
  CHECK_TRUE(!is_one_to_one({0, 2, 1}, 3));
  CHECK_TRUE(!is_one_to_one({0, 1, 0}, 2));
  CHECK_TRUE(!is_one_to_one({0, 1}, 3));
}

std::vector<int64_t> Splits(const std::vector<int64_t>& rows, int64_t num_bags, int64_t max_keys) {
  std::vector<int64_t> indices;
  for (const int64_t row : rows) {
    indices.push_back(row);
    indices.push_back(0);
  }
  std::vector<int64_t> row_splits(static_cast<size_t>(num_bags) + 1, -1);
  RowSplitsFromIndices("layer", static_cast<int64_t>(rows.size()), indices.data(), num_bags,
                       max_keys, row_splits.data());
  return row_splits;
}

SOK_TEST(RowSplitsComeFromSortedRows) {
  CHECK_TRUE(Splits({}, 0, 1) == std::vector<int64_t>({0}));
  CHECK_TRUE(Splits({}, 3, 1) == std::vector<int64_t>({0, 0, 0, 0}));
  CHECK_TRUE(Splits({1, 1, 3}, 5, 2) == std::vector<int64_t>({0, 0, 2, 2, 3, 3}));
}

SOK_TEST(RowSplitsOfOneKeyInEachBag) {
  std::vector<int64_t> rows(1000);
  std::iota(rows.begin(), rows.end(), int64_t{0});
  std::vector<int64_t> expected = rows;
  expected.push_back(1000);
  CHECK_TRUE(Splits(rows, 1000, 1) == expected);
  rows[998] = 999;  // two in the last bag, none in the previous one
  expected[999] = 998;
  CHECK_TRUE(Splits(rows, 1000, 2) == expected);
}

SOK_TEST(RowSplitsRefuseWhatDoesNotFit) {
  using Words = std::vector<std::string>;
  CHECK_THROWS(ErrorCode::kInvalidArgument, (Words{"layer", "row index 3", "3 rows"}),
               Splits({0, 3}, 3, 1));
  CHECK_THROWS(ErrorCode::kInvalidArgument, (Words{"row index -1"}), Splits({-1}, 3, 1));
  CHECK_THROWS(ErrorCode::kInvalidArgument,
               (Words{"entry 1", "row 0 after row 2", "tf.sparse.reorder"}), Splits({2, 0}, 3, 1));
  CHECK_THROWS(ErrorCode::kInvalidArgument, (Words{"row 1", "max_nnz = 2"}),
               Splits({1, 1, 1}, 3, 2));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
