// SPDX-License-Identifier: Apache-2.0
// Bags, pooling and merging against the plain loops that say what they do.
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/lookup/bags.h"
#include "ops/lookup/gather_rows.h"
#include "ops/lookup/merge_gradients.h"
#include "ops/lookup/pool_rows.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

/// A random batch; `hot_share` of all occurrences are of one key.
struct Batch {
  Batch(int64_t num_bags, int64_t max_keys, int64_t num_distinct, double hot_share,
        Combiner combiner)
      : random(static_cast<uint64_t>(num_bags + num_distinct)) {
    row_splits.push_back(0);
    for (int64_t bag = 0; bag < num_bags; ++bag) {
      const auto num_keys =
          combiner == Combiner::kNone ? 1 : static_cast<int64_t>(random() % (max_keys + 1));
      row_splits.push_back(row_splits.back() + num_keys);
    }
    std::uniform_real_distribution<double> share;
    for (int64_t i = 0; i < row_splits.back(); ++i) {
      const bool is_hot = share(random) < hot_share;
      inverse.push_back(
          is_hot ? 0 : static_cast<int32_t>(random() % static_cast<uint64_t>(num_distinct)));
    }
    bags.num_keys = static_cast<int64_t>(inverse.size());
    bags.num_distinct = num_distinct;
    bags.inverse = inverse.data();
    bags.num_bags = num_bags;
    bags.row_splits = row_splits.data();
    bags.combiner = combiner;
  }

  std::vector<float> Floats(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
  }

  /// scale of the bag of each occurrence, and which bag it is in.
  std::vector<std::pair<int64_t, double>> BagOfEach() const {
    std::vector<std::pair<int64_t, double>> result;
    for (int64_t bag = 0; bag < bags.num_bags; ++bag) {
      const int64_t count =
          row_splits[static_cast<size_t>(bag) + 1] - row_splits[static_cast<size_t>(bag)];
      const double scale =
          bags.combiner == Combiner::kMean ? 1.0 / static_cast<double>(count) : 1.0;
      for (int64_t i = 0; i < count; ++i) result.emplace_back(bag, scale);
    }
    return result;
  }

  std::mt19937_64 random;
  std::vector<int64_t> row_splits;
  std::vector<int32_t> inverse;
  Bags bags;
};

void CheckNear(const std::vector<float>& actual, const std::vector<double>& expected,
               double tolerance) {
  CHECK_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::abs(actual[i] - expected[i]) > tolerance * (1.0 + std::abs(expected[i]))) {
      CHECK_EQ(static_cast<double>(actual[i]), expected[i]);
    }
  }
}

void CheckPooling(Batch batch, int64_t dim) {
  const std::vector<float> rows = batch.Floats(batch.bags.num_distinct * dim);
  std::vector<const float*> pointers;
  for (int64_t i = 0; i < batch.bags.num_distinct; ++i) pointers.push_back(rows.data() + i * dim);
  std::vector<double> expected(static_cast<size_t>(batch.bags.num_bags * dim), 0.0);
  const auto bag_of = batch.BagOfEach();
  for (size_t i = 0; i < batch.inverse.size(); ++i) {
    for (int64_t column = 0; column < dim; ++column) {
      expected[static_cast<size_t>(bag_of[i].first * dim + column)] +=
          bag_of[i].second * rows[static_cast<size_t>(batch.inverse[i] * dim + column)];
    }
  }
  const auto threads = MakeThreadExecutor(3);
  for (Executor* executor : {&SerialExecutor(), threads.get()}) {
    std::vector<float> out(expected.size(), -1.0f);
    PoolRows(*executor, batch.bags, dim, pointers.data(), out.data());
    CheckNear(out, expected, 1e-5);
  }
}

void CheckMerging(Batch batch, int64_t dim) {
  const std::vector<float> gradients = batch.Floats(batch.bags.num_bags * dim);
  std::vector<double> expected(static_cast<size_t>(batch.bags.num_distinct * dim), 0.0);
  const auto bag_of = batch.BagOfEach();
  for (size_t i = 0; i < batch.inverse.size(); ++i) {
    for (int64_t column = 0; column < dim; ++column) {
      expected[static_cast<size_t>(batch.inverse[i] * dim + column)] +=
          bag_of[i].second * gradients[static_cast<size_t>(bag_of[i].first * dim + column)];
    }
  }
  std::vector<float> serial(expected.size(), -1.0f);
  MergeGradients(SerialExecutor(), batch.bags, dim, gradients.data(), serial.data());
  CheckNear(serial, expected, 2e-3);  // sums of 20,000 terms that cancel out
  std::vector<float> parallel(expected.size(), -1.0f);
  const auto threads = MakeThreadExecutor(3);
  MergeGradients(*threads, batch.bags, dim, gradients.data(), parallel.data());
  CHECK_TRUE(serial == parallel);  // to the bit
}

const Combiner kCombiners[] = {Combiner::kNone, Combiner::kSum, Combiner::kMean};
const int64_t kDims[] = {1, 3, 4, 16, 128};

SOK_TEST(PoolingSumsTheRowsOfEachBag) {
  for (const Combiner combiner : kCombiners) {
    for (const int64_t dim : kDims) {
      CheckPooling(Batch(1000, 7, 50, 0.3, combiner), dim);
      CheckPooling(Batch(0, 7, 1, 0.0, combiner), dim);
      CheckPooling(Batch(1, 1, 1, 1.0, combiner), dim);
    }
  }
}

SOK_TEST(MergingSumsTheGradientsOfEachKey) {
  for (const Combiner combiner : kCombiners) {
    for (const int64_t dim : kDims) {
      CheckMerging(Batch(1000, 7, 50, 0.3, combiner), dim);
      CheckMerging(Batch(0, 7, 3, 0.0, combiner), dim);
      CheckMerging(Batch(1, 1, 1, 1.0, combiner), dim);
    }
  }
}

SOK_TEST(MergingSharesAHotKeyAmongBlocks) {
  for (const double hot_share : {0.0, 0.5, 1.0}) {
    CheckMerging(Batch(20000, 1, 3000, hot_share, Combiner::kNone), 8);
    CheckMerging(Batch(5000, 9, 3, hot_share, Combiner::kMean), 8);
  }
}

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

/// Bags of two sums of three keys each, say: a mean over six.
SOK_TEST(MeanOfSums) {
  const std::vector<int64_t> row_splits = {0, 2}, mean_splits = {0, 6};
  const std::vector<int32_t> inverse = {1, 0};
  const std::vector<float> sums = {12, 18};
  const std::vector<const float*> pointers = {&sums[0], &sums[1]};
  Bags bags;
  bags.num_keys = bags.num_distinct = 2;
  bags.inverse = inverse.data();
  bags.num_bags = 1;
  bags.row_splits = row_splits.data();
  bags.combiner = Combiner::kMean;
  bags.mean_splits = mean_splits.data();
  float mean = 0;
  PoolRows(SerialExecutor(), bags, 1, pointers.data(), &mean);
  CHECK_EQ(mean, 5.0f);
  std::vector<float> merged(2);
  const float gradient = 6;
  MergeGradients(SerialExecutor(), bags, 1, &gradient, merged.data());
  CHECK_TRUE(merged == std::vector<float>({1, 1}));
}

SOK_TEST(GatheringLeavesOutWhatHasNoRow) {
  const auto threads = MakeThreadExecutor(3);
  for (const int64_t dim : kDims) {
    constexpr int64_t kNumRows = 50;
    std::vector<float> plane(static_cast<size_t>(kNumRows * dim));
    for (size_t i = 0; i < plane.size(); ++i) plane[i] = static_cast<float>(i);
    std::vector<int64_t> row_ids(10000);
    for (size_t i = 0; i < row_ids.size(); ++i) row_ids[i] = static_cast<int64_t>(i * 7 % 51) - 1;
    std::vector<float> out(row_ids.size() * static_cast<size_t>(dim), -5.0f);
    GatherRows(*threads, static_cast<int64_t>(row_ids.size()), dim, row_ids.data(), plane.data(),
               out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t row = row_ids[i / static_cast<size_t>(dim)];
      const auto column = static_cast<int64_t>(i) % dim;
      CHECK_EQ(out[i], row < 0 ? -5.0f : static_cast<float>(row * dim + column));
    }
  }
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
