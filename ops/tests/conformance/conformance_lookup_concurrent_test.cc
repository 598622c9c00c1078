// SPDX-License-Identifier: Apache-2.0
// Pooling and merging on every engine: compared with double precision, and the same bits
// everywhere.
#include "ops/tests/conformance/random_batch.h"

namespace sok {
namespace {

using testing::CallWithArrays;
using testing::CheckNear;
using testing::Floats;
using testing::ForAllBatches;
using testing::Ids;
using testing::OnAllEngines;
using testing::Random;
using testing::RandomBatch;
using testing::Size;
using testing::TestedEngine;
using testing::Words;

/// A plane, and where the rows of distinct keys are, inside or outside of it.
struct Rows {
  Rows(int64_t num_distinct, int64_t row_dim)
      : dim(row_dim),
        plane(testing::AsElements(Random(2 * num_distinct * dim, 1))),
        absent(Random(num_distinct * dim, 2)) {
    for (int64_t d = 0; d < num_distinct; ++d) {
      row_ids.push_back(d % 4 == 0 ? kNoRow : (d * 7) % (2 * num_distinct));
    }
  }

  const float* Row(int64_t d) const {
    const int64_t row_id = row_ids[static_cast<size_t>(d)];
    return row_id < 0 ? absent.data() + d * dim : plane.data() + row_id * dim;
  }
  RowSource Upload(CallWithArrays& arrays) const {
    return {arrays.UploadRows(plane, dim), arrays.Upload(row_ids), arrays.Upload(absent)};
  }

  int64_t dim;
  Floats plane;
  Floats absent;
  Ids row_ids;
};

Floats Pool(const TestedEngine& engine, const RandomBatch& batch, const Rows& rows) {
  CallWithArrays arrays(engine);
  const int64_t count = batch.bags.num_bags * rows.dim;
  auto* out = arrays.Empty<float>(count);
  const Bags bags = Uploaded(arrays, batch);
  engine.engine.CheckBags(arrays.call(), bags, "test");
  engine.engine.PoolRows(arrays.call(), bags, rows.Upload(arrays), out);
  return arrays.Download(out, count);
}

SOK_TEST(PoolingAddsUpTheRowsOfEachBag) {
  const TestedEngine cpu{"CPU", CpuEngine(), SerialExecutor()};
  const auto check = [&](const RandomBatch& batch, int64_t dim) {
    const Rows rows(batch.bags.num_distinct, dim);
    std::vector<double> expected(static_cast<size_t>(batch.bags.num_bags * dim));
    batch.ForEach([&](int64_t i, int64_t bag, double factor) {
      for (int64_t c = 0; c < dim; ++c) {
        expected[static_cast<size_t>(bag * dim + c)] += factor * rows.Row(batch.inverse[i])[c];
      }
    });
    const Floats of_cpu = Pool(cpu, batch, rows);
    CheckNear(of_cpu, expected, 2e-5);
    for (const TestedEngine& engine : testing::TestedEngines()) {
      CHECK_TRUE(Pool(engine, batch, rows) == of_cpu);
    }
  };
  testing::WithAllElements([&] { ForAllBatches(check); });
}

SOK_TEST(WithoutRowIdsTheRowsStandInOrder) {
  OnAllEngines([](const TestedEngine& engine) {
    const RandomBatch batch({50, 4, 20});
    const int64_t dim = 3;
    const Floats plane = Random(20 * dim, 4);
    Ids in_order;
    for (int64_t d = 0; d < 20; ++d) in_order.push_back(d);
    CallWithArrays arrays(engine);
    const Bags bags = Uploaded(arrays, batch);
    auto* out = arrays.Empty<float>(50 * dim);
    auto* expected = arrays.Empty<float>(50 * dim);
    const RowsView rows = arrays.UploadRows(plane, dim);
    engine.engine.PoolRows(arrays.call(), bags, {rows, nullptr, nullptr}, out);
    engine.engine.PoolRows(arrays.call(), bags, {rows, arrays.Upload(in_order), nullptr}, expected);
    CHECK_TRUE(arrays.Download(out, 50 * dim) == arrays.Download(expected, 50 * dim));
  });
}

Floats Merge(const TestedEngine& engine, const RandomBatch& batch, int64_t dim,
             const Floats& gradients) {
  CallWithArrays arrays(engine);
  const int64_t count = batch.bags.num_distinct * dim;
  auto* merged = arrays.Empty<float>(count);
  engine.engine.MergeGradients(arrays.call(), Uploaded(arrays, batch), dim,
                               arrays.Upload(gradients), merged);
  return arrays.Download(merged, count);
}

void CheckMerging(const RandomBatch& batch, int64_t dim, double tolerance) {
  const Floats gradients = Random(batch.bags.num_bags * dim, 3);
  std::vector<double> expected(static_cast<size_t>(batch.bags.num_distinct * dim));
  batch.ForEach([&](int64_t i, int64_t bag, double factor) {
    for (int64_t c = 0; c < dim; ++c) {
      expected[static_cast<size_t>(batch.inverse[i] * dim + c)] +=
          factor * gradients[static_cast<size_t>(bag * dim + c)];
    }
  });
  for (const TestedEngine& engine : testing::TestedEngines()) {
    const Floats merged = Merge(engine, batch, dim, gradients);
    CheckNear(merged, expected, tolerance);
    CHECK_TRUE(Merge(engine, batch, dim, gradients) == merged);
  }
}

SOK_TEST(MergingAddsUpEachKeysGradients) {
  ForAllBatches([](const RandomBatch& batch, int64_t dim) { CheckMerging(batch, dim, 1e-5); });
}

SOK_TEST(MergingSharesAHotKey) {
  for (const double hot_share : {0.0, 0.5, 1.0}) {
    const double tolerance = 2e-3;  // sums of 20,000 terms that cancel out
    CheckMerging(RandomBatch({20'000, 1, 3000, hot_share, Combiner::kNone}), 8, tolerance);
    CheckMerging(RandomBatch({5000, 9, 3, hot_share, Combiner::kMean}), 8, tolerance);
  }
}

SOK_TEST(MergingGivesZerosToKeysThatDoNotCome) {
  for (const int64_t num_bags : {100, 5000}) {
    CheckMerging(RandomBatch({num_bags, 1, 30'000, 0.1, Combiner::kNone}), 8, 1e-4);
    CheckMerging(RandomBatch({num_bags, 0, 30, 0.1, Combiner::kSum}), 8, 0.0);
  }
}

#ifndef SOK_TEST_ON_GPU
SOK_TEST(TheCpuMergesToTheSameBitsOnAnyThreads) {
  const auto& engines = testing::TestedEngines();
  const auto check = [&](const RandomBatch& batch, int64_t dim) {
    const Floats gradients = Random(batch.bags.num_bags * dim, 3);
    CHECK_TRUE(Merge(engines[0], batch, dim, gradients) ==
               Merge(engines[1], batch, dim, gradients));
  };
  for (const double hot_share : {0.0, 0.5, 1.0}) {
    for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean}) {
      check(RandomBatch({20'000, 1, 3000, hot_share, combiner}), 4);
      check(RandomBatch({8'192, 6, 5, hot_share, combiner}), 3);
    }
    check(RandomBatch({20'000, 3, 3000, hot_share, Combiner::kMean, true}), 4);
    check(RandomBatch({70'000, 2, 30'000, hot_share, Combiner::kSum, false, true}), 4);
  }
}

/// A bag of several keys among bags of one, which the loops process in runs.
SOK_TEST(BagsOfOneKeyAndOthersMix) {
  for (const int64_t place : {0, 15, 16, 20, 99}) {
    for (const int64_t size : {0, 2, 17}) {
      RandomBatch batch({100, 1, 7, 0.3, Combiner::kMean});
      batch.row_splits.assign(1, 0);
      for (int64_t bag = 0; bag < 100; ++bag) {
        batch.row_splits.push_back(batch.row_splits.back() + (bag == place ? size : 1));
      }
      batch.inverse.clear();
      for (int64_t i = 0; i < batch.row_splits.back(); ++i) {
        batch.inverse.push_back(static_cast<int32_t>(i * 5 % 7));
      }
      batch.bags.num_keys = batch.row_splits.back();
      batch.bags.inverse = batch.inverse.data();
      batch.bags.row_splits = batch.row_splits.data();
      CheckMerging(batch, 4, 1e-5);
    }
  }
}
#endif

/// Rows that are already sums, of three keys each, say: a mean over six.
SOK_TEST(FactorsStandInForTheCombiner) {
  OnAllEngines([](const TestedEngine& engine) {
    CallWithArrays arrays(engine);
    Bags bags;
    bags.num_keys = bags.num_distinct = 2;
    bags.inverse = arrays.Upload(testing::Numbers{1, 0});
    bags.num_bags = 1;
    bags.row_splits = arrays.Upload(Ids{0, 2});
    bags.combiner = Combiner::kMean;
    bags.factors = arrays.Upload(Floats{0.25f});
    auto* out = arrays.Empty<float>(2);
    engine.engine.PoolRows(arrays.call(), bags,
                           {FloatRows(arrays.Upload(Floats{12, 16}), 1), nullptr, nullptr}, out);
    CHECK_EQ(arrays.Download(out, 1)[0], 7.0f);
    engine.engine.MergeGradients(arrays.call(), bags, 1, arrays.Upload(Floats{6}), out);
    CHECK_TRUE(arrays.Download(out, 2) == (Floats{1.5f, 1.5f}));
  });
}

SOK_TEST(WeightsThatAddUpToNothingGiveZeros) {
  OnAllEngines([](const TestedEngine& engine) {
    CallWithArrays arrays(engine);
    Bags bags;
    bags.num_keys = bags.num_distinct = 2;
    bags.inverse = arrays.Upload(testing::Numbers{0, 1});
    bags.num_bags = 1;
    bags.row_splits = arrays.Upload(Ids{0, 2});
    bags.combiner = Combiner::kMean;
    bags.weights = arrays.Upload(Floats{2, -2});
    auto* out = arrays.Empty<float>(2);
    engine.engine.PoolRows(arrays.call(), bags,
                           {FloatRows(arrays.Upload(Floats{12, 16}), 1), nullptr, nullptr}, out);
    CHECK_EQ(arrays.Download(out, 1)[0], 0.0f);
    engine.engine.MergeGradients(arrays.call(), bags, 1, arrays.Upload(Floats{6}), out);
    CHECK_TRUE(arrays.Download(out, 2) == (Floats{0, 0}));
  });
}

SOK_TEST(BagsAreChecked) {
  OnAllEngines([](const TestedEngine& engine) {
    const auto check = [&](auto change, const Words& words, bool is_seen_on_a_device) {
      if (!is_seen_on_a_device && !engine.engine.IsHostMemory()) return;
      RandomBatch batch({4, 3, 5});
      change(batch);
      CallWithArrays arrays(engine);
      const Bags bags = Uploaded(arrays, batch);
      CHECK_THROWS(ErrorCode::kInvalidArgument, words,
                   engine.engine.CheckBags(arrays.call(), bags, "layer"));
    };
    check([](RandomBatch& batch) { batch.bags.num_bags = int64_t{1} << 31; },
          {"layer", "2147483647 keys", "2147483648"}, true);
    check([](RandomBatch& batch) { batch.bags.combiner = Combiner::kNone; },
          {"layer", "without a combiner"}, true);
    check(
        [](RandomBatch& batch) {
          batch.bags.combiner = Combiner::kNone;
          batch.bags.num_bags = batch.bags.num_keys;
          batch.bags.weights = batch.weights.data();
        },
        {"layer", "weights need a combiner"}, true);
    check([](RandomBatch& batch) { batch.bags.num_bags = 0; }, {"layer", "row_splits"}, true);
    check([](RandomBatch& batch) { batch.inverse[1] = 5; }, {"layer", "inverse", "below 5"}, false);
    check([](RandomBatch& batch) { batch.inverse[1] = -1; }, {"inverse", "below 5"}, false);
    check([](RandomBatch& batch) { batch.row_splits[0] = 1; }, {"row_splits", "from 0"}, false);
    check([](RandomBatch& batch) { batch.row_splits[2] = 100; }, {"row_splits", "ascend"}, false);
    check([](RandomBatch& batch) { batch.row_splits.back() -= 1; }, {"row_splits"}, false);
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
