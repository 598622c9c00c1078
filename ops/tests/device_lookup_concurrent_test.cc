// SPDX-License-Identifier: Apache-2.0
// Distinct keys, pooling, merging and partition on a queue, against the CPU's.
#include <cmath>
#include <functional>
#include <random>

#include "ops/device/merging.h"
#include "ops/device/partition.h"
#include "ops/device/pooling.h"
#include "ops/lookup/distinct.h"
#include "ops/lookup/merge_gradients.h"
#include "ops/lookup/pool_rows.h"
#include "ops/tests/device_lookup_fixture.h"

namespace sok {
namespace {

using testing::CheckNear;
using testing::DeviceArray;
using testing::Fixture;
using testing::Floats;
using testing::Ids;
using testing::Random;
using testing::Size;
using testing::TestQueue;
using Numbers = std::vector<int32_t>;

SOK_TEST(DistinctKeysAreNumberedAsOnTheCpu) {
  Fixture fixture;
  std::mt19937_64 random(1);
  for (const int64_t count : {1, 2, 31, 33, 1000, 5000}) {
    for (const uint64_t range : {1, 5, 900, 1'000'000'000}) {
      Ids keys(static_cast<size_t>(count));
      for (int64_t& key : keys) key = static_cast<int64_t>(random() % range) - 3;
      Ids expected(keys.size());
      Numbers expected_inverse(keys.size());
      const int64_t num_distinct = Distinct<int64_t>(SerialExecutor(), count, keys.data(),
                                                     expected.data(), expected_inverse.data());
      const DeviceArray<int64_t> device_keys(fixture.queue, keys);
      const DeviceArray<int64_t> distinct(fixture.queue, count);
      const DeviceArray<int32_t> inverse(fixture.queue, count);
      const DeviceArray<int32_t> first(fixture.queue, count);
      int32_t num_found = 0;
      {
        const QueueCall<TestQueue> call(fixture.queue, {});
        const Scratch<TestQueue>::Frame frame(fixture.scratch);
        const int32_t* number =
            DistinctKeys(fixture.queue, fixture.scratch, count, device_keys.data(), distinct.data(),
                         first.data(), inverse.data());
        fixture.queue.CopyToHost(&num_found, number, sizeof(num_found));
      }
      CHECK_EQ(int64_t{num_found}, num_distinct);
      Ids found = distinct.ToHost();
      found.resize(static_cast<size_t>(num_found));
      expected.resize(static_cast<size_t>(num_found));
      CHECK_TRUE(found == expected);
      CHECK_TRUE(inverse.ToHost() == expected_inverse);
      const Numbers first_positions = first.ToHost();
      for (size_t d = 0; d < found.size(); ++d) {
        const auto position = static_cast<size_t>(first_positions[d]);
        CHECK_EQ(keys[position], found[d]);
        CHECK_TRUE(std::find(keys.begin(), keys.begin() + first_positions[d], found[d]) ==
                   keys.begin() + first_positions[d]);
      }
    }
  }
}

/// A random batch; a third of all occurrences are of one key.
struct Batch {
  Batch(int64_t num_bags, int64_t max_keys, int64_t num_distinct, Combiner combiner) {
    std::mt19937_64 random(static_cast<uint64_t>(num_bags + max_keys));
    for (int64_t bag = 0; bag < num_bags; ++bag) {
      const int64_t num_keys =
          combiner == Combiner::kNone ? 1 : static_cast<int64_t>(random() % (max_keys + 1));
      splits.push_back(splits.back() + num_keys);
    }
    for (int64_t i = 0; i < splits.back(); ++i) {
      inverse.push_back(random() % 3 == 0 ? 1 : static_cast<int32_t>(random() % num_distinct));
    }
    weights = Random(splits.back(), 9, 0.1f);
    bags.num_keys = splits.back();
    bags.num_distinct = num_distinct;
    bags.inverse = inverse.data();
    bags.num_bags = num_bags;
    bags.row_splits = splits.data();
    bags.combiner = combiner;
  }

  Ids splits = {0};
  Numbers inverse;
  Floats weights;
  Bags bags;
};

/// The same batch on the device.
struct DeviceBatch {
  DeviceBatch(TestQueue& queue, const Batch& batch)
      : splits(queue, batch.splits),
        inverse(queue, batch.inverse),
        weights(queue, batch.weights),
        bags(batch.bags) {
    bags.inverse = inverse.data();
    bags.row_splits = splits.data();
  }

  DeviceArray<int64_t> splits;
  DeviceArray<int32_t> inverse;
  DeviceArray<float> weights;
  Bags bags;
};

/// The factor of occurrence i of `bag` in double precision.
double Factor(const Batch& batch, int64_t bag, int64_t i, bool is_weighted) {
  double divisor = 1.0;
  if (batch.bags.combiner == Combiner::kMean) {
    divisor = 0.0;
    for (int64_t k = batch.splits[bag]; k < batch.splits[bag + 1]; ++k) {
      divisor += is_weighted ? batch.weights[k] : 1.0;
    }
  }
  return (is_weighted ? batch.weights[i] : 1.0) / divisor;
}

/// Calls check for batches of all kinds: short and long bags, dims with and without packs.
void ForAllBatches(
    const std::function<void(const Batch& batch, int64_t dim, bool is_weighted)>& check) {
  for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean}) {
    for (const bool is_weighted : {false, true}) {
      if (is_weighted && combiner == Combiner::kNone) continue;
      for (const int64_t dim : {4, 6}) {
        check(Batch(300, 5, 200, combiner), dim, is_weighted);
        check(Batch(2, 3000, 50, combiner), dim, is_weighted);
        check(Batch(1, 1, 2, combiner), dim, is_weighted);
      }
    }
  }
}

SOK_TEST(PoolingAddsUpAsOnTheCpu) {
  ForAllBatches([](const Batch& batch, int64_t dim, bool is_weighted) {
    Fixture fixture;
    const int64_t num_distinct = batch.bags.num_distinct;
    const int64_t num_rows = 2 * num_distinct;
    const Floats plane = Random(num_rows * dim, 1);
    const Floats absent = Random(num_distinct * dim, 2);
    Ids row_ids;
    std::vector<const float*> rows;
    for (int64_t d = 0; d < num_distinct; ++d) {
      row_ids.push_back(d % 4 == 0 ? kNoRow : (d * 7) % num_rows);
      rows.push_back(row_ids.back() < 0 ? absent.data() + d * dim
                                        : plane.data() + row_ids.back() * dim);
    }
    const DeviceBatch device(fixture.queue, batch);
    const DeviceArray<float> device_plane(fixture.queue, plane);
    const DeviceArray<float> device_absent(fixture.queue, absent);
    const DeviceArray<int64_t> device_row_ids(fixture.queue, row_ids);
    const DeviceArray<float> out(fixture.queue, batch.bags.num_bags * dim);
    {
      const QueueCall<TestQueue> call(fixture.queue, {});
      PoolRows(fixture.queue, device.bags,
               {device_plane.data(), device_row_ids.data(), device_absent.data(), dim},
               {is_weighted ? device.weights.data() : nullptr}, out.data());
    }
    if (!is_weighted) {
      Floats expected(static_cast<size_t>(batch.bags.num_bags * dim));
      PoolRows(SerialExecutor(), batch.bags, dim, rows.data(), expected.data());
      CHECK_TRUE(out.ToHost() == expected);
      return;
    }
    std::vector<double> expected(static_cast<size_t>(batch.bags.num_bags * dim));
    for (int64_t bag = 0; bag < batch.bags.num_bags; ++bag) {
      for (int64_t i = batch.splits[bag]; i < batch.splits[bag + 1]; ++i) {
        for (int64_t c = 0; c < dim; ++c) {
          expected[bag * dim + c] +=
              Factor(batch, bag, i, true) * rows[static_cast<size_t>(batch.inverse[i])][c];
        }
      }
    }
    CheckNear(out.ToHost(), expected);
  });
}

SOK_TEST(MergingAddsUpEachKeysGradients) {
  ForAllBatches([](const Batch& batch, int64_t dim, bool is_weighted) {
    Fixture fixture;
    const Floats gradients = Random(batch.bags.num_bags * dim, 3);
    std::vector<double> expected(static_cast<size_t>(batch.bags.num_distinct * dim));
    for (int64_t bag = 0; bag < batch.bags.num_bags; ++bag) {
      for (int64_t i = batch.splits[bag]; i < batch.splits[bag + 1]; ++i) {
        for (int64_t c = 0; c < dim; ++c) {
          expected[batch.inverse[i] * dim + c] +=
              Factor(batch, bag, i, is_weighted) * gradients[bag * dim + c];
        }
      }
    }
    const DeviceBatch device(fixture.queue, batch);
    const DeviceArray<float> device_gradients(fixture.queue, gradients);
    const DeviceArray<float> merged(fixture.queue, batch.bags.num_distinct * dim);
    Floats first_time;
    for (int time = 0; time < 2; ++time) {  // the second uses scratch memory again
      {
        const QueueCall<TestQueue> call(fixture.queue, {});
        MergeGradients(fixture.queue, fixture.scratch, device.bags,
                       {is_weighted ? device.weights.data() : nullptr}, dim,
                       device_gradients.data(), merged.data());
      }
      if (time == 0) first_time = merged.ToHost();
    }
    CHECK_TRUE(merged.ToHost() == first_time);
    CheckNear(first_time, expected);
  });
}

SOK_TEST(PartitionGroupsKeysByOwner) {
  std::mt19937_64 random(5);
  for (const int64_t count : {0, 1, 3000}) {
    for (const int64_t world_size : {1, 2, 5, 64}) {
      Fixture fixture;
      Ids keys(static_cast<size_t>(count));
      for (int64_t& key : keys) key = static_cast<int64_t>(random());
      std::vector<Ids> of_rank(static_cast<size_t>(world_size));
      for (const int64_t key : keys) {
        of_rank[static_cast<size_t>(((key % world_size) + world_size) % world_size)].push_back(key);
      }
      const DeviceArray<int64_t> device_keys(fixture.queue, keys);
      const DeviceArray<int64_t> by_owner(fixture.queue, count);
      const DeviceArray<int32_t> positions(fixture.queue, count);
      const DeviceArray<int64_t> begins(fixture.queue, world_size + 1);
      {
        const QueueCall<TestQueue> call(fixture.queue, {});
        PartitionByOwner(fixture.queue, fixture.scratch, count, world_size, device_keys.data(),
                         by_owner.data(), positions.data(), begins.data());
      }
      Ids expected;
      Ids expected_begins = {0};
      for (const Ids& of_one : of_rank) {
        expected.insert(expected.end(), of_one.begin(), of_one.end());
        expected_begins.push_back(Size(expected));
      }
      CHECK_TRUE(by_owner.ToHost() == expected);
      CHECK_TRUE(begins.ToHost() == expected_begins);
      const Numbers places = positions.ToHost();
      for (size_t i = 0; i < expected.size(); ++i) {
        CHECK_EQ(keys[static_cast<size_t>(places[i])], expected[i]);
      }
    }
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
