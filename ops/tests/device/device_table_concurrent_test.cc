// SPDX-License-Identifier: Apache-2.0
// Internals of a device table: a crowded index, growth, limits. On CPU threads, or a GPU. Its
// behaviour as a table: conformance_tables_concurrent_test.cc.
#include <algorithm>
#include <random>

#include "ops/base/hash.h"
#include "ops/base/hash_secret.h"
#include "ops/device/kernels/apply_rule.h"
#include "ops/device/kernels/row_kernels.h"
#include "ops/tests/conformance/table_model.h"
#include "ops/tests/device/device_fixture.h"

namespace sok {
namespace {

using testing::DeviceArray;
using testing::DeviceTableWithRows;
using testing::Ids;
using testing::Options;
using testing::Size;
using testing::TableModel;
using testing::TestQueue;

/// A key whose home is among the first 51 of 64 buckets.
int64_t CrowdedKey(std::mt19937_64& random) {
  for (;;) {
    const auto key = static_cast<int64_t>(random());
    if (ScaleHash(HashKey(key, HashSecret()), 64) < 51) return key;
  }
}

/// Every bucket is passed and many keys share homes: as many keys as the home buckets have slots.
SOK_TEST(CrowdedIndex) {
  const TableOptions options = Options(100'000);
  DeviceTableWithRows table(options);
  TableModel model(options);
  std::mt19937_64 random(2);
  Ids keys(256);  // 64 buckets of 5, at 80 percent
  for (int64_t& key : keys) key = CrowdedKey(random);
  CHECK_TRUE(table.FindOrInsert({keys.begin(), keys.begin() + 70}) ==
             model.FindOrInsert({keys.begin(), keys.begin() + 70}));
  for (int round = 0; round < 200; ++round) {  // old keys go, new ones come: no marks remain
    std::shuffle(keys.begin(), keys.end(), random);
    const Ids some(keys.begin(), keys.begin() + 127);
    CHECK_TRUE(table.FindOrInsert(some) == model.FindOrInsert(some));
    const Ids others(keys.begin() + 84, keys.begin() + 211);
    CHECK_EQ(table.Erase(others), model.Erase(others));
    CHECK_TRUE(table.Find(keys) == model.Find(keys));
  }
  CHECK_EQ(table.table.Size(table.call()).num_keys, model.num_keys());
  CHECK_EQ(table.NumSlots(), 64 * DeviceBucket::kSlots);  // it has not grown
  CHECK_TRUE(table.NumPassed() > 0);
  table.Erase(keys);
  CHECK_EQ(table.NumPassed(), 0);
}

SOK_TEST(SmallBatchesGrowTheIndexInTime) {
  DeviceTableWithRows table(Options(100'000));
  for (int64_t batch = 0; batch < 60; ++batch) {
    Ids keys;
    for (int64_t i = 0; i < 40; ++i) keys.push_back(batch * 40 + i);
    table.FindOrInsert(keys, true);
    CHECK_TRUE((batch + 1) * 40 * 100 <= table.NumSlots() * 80);
  }
}

/// All slots of a small index, filled by threads that compete for the same ones.
SOK_TEST(InsertionsOfOneKernelMeet) {
  constexpr int64_t kBuckets = 13;
  constexpr int64_t kKeys = kBuckets * DeviceBucket::kSlots;
  testing::QueueForTests fixture;
  for (int64_t round = 0; round < 200; ++round) {
    Ids keys;
    for (int64_t i = 0; i < kKeys; ++i) keys.push_back(round * 1000 + i);
    const testing::DeviceArray<int64_t> device_keys(fixture.queue, keys);
    const testing::DeviceArray<int64_t> rows(fixture.queue, kKeys);
    const testing::DeviceArray<int64_t> counters(fixture.queue, Ids{0, 0});
    const testing::DeviceArray<DeviceBucket> buckets(fixture.queue, kBuckets);
    const DeviceIndex index{buckets.data(), kBuckets};
    {
      const QueueCall<testing::TestQueue> call(fixture.queue, {});
      fixture.queue.ForEach(kBuckets, ClearBuckets{buckets.data()});
      fixture.queue.ForEach(kKeys,
                            InsertNewKeys{index, device_keys.data(), nullptr, counters.data(),
                                          counters.data() + 1, rows.data()});
      fixture.queue.ForEach(kKeys, FindRows<DeviceIndex>{index, device_keys.data(), rows.data()});
    }
    const Ids found = rows.ToHost();
    for (int64_t i = 0; i < kKeys; ++i) CHECK_EQ(found[static_cast<size_t>(i)], i);
  }
}

SOK_TEST(LimitsAreNamed) {
  DeviceTableWithRows table(Options(10));
  CHECK_THROWS(ErrorCode::kInvalidArgument, (std::vector<std::string>{"1073741824", "split"}),
               table.table.Find(table.call(), (int64_t{1} << 30) + 1, nullptr, nullptr));
}

/// The number of items may be on the device, as the number of distinct keys is.
SOK_TEST(ItemsBeyondTheCountOnTheDeviceAreLeftOut) {
  constexpr int64_t kDim = 6;
  testing::QueueForTests fixture;
  const Ids row_ids = {7, kNoRow, 0, 4, 1};
  std::vector<float> plane(10 * kDim);
  std::vector<float> rows(5 * kDim);
  for (size_t i = 0; i < plane.size(); ++i) plane[i] = static_cast<float>(i);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = -static_cast<float>(i);
  const DeviceArray<float> device_plane(fixture.queue, plane);
  const DeviceArray<float> device_rows(fixture.queue, rows);
  const DeviceArray<int64_t> device_row_ids(fixture.queue, row_ids);
  const DeviceArray<int32_t> exact(fixture.queue, std::vector<int32_t>{3});
  const Count count(Size(row_ids), exact.data());
  {
    const QueueCall<TestQueue> call(fixture.queue, {});
    GatherRows(fixture.queue, count, kDim, device_row_ids.data(), device_plane.data(),
               device_rows.data());
    RulePlanes planes;
    planes.rows = FloatRows(device_plane.data(), kDim);
    ApplyToRows(fixture.queue, SgdRule{2.0f}, planes, 10, count, device_row_ids.data(),
                device_rows.data());
  }
  for (const int64_t i : {0, 2}) {  // a row minus twice itself
    for (int64_t c = 0; c < kDim; ++c) {
      float& value = plane[static_cast<size_t>(row_ids[static_cast<size_t>(i)] * kDim + c)];
      rows[static_cast<size_t>(i * kDim + c)] = value;
      value -= 2.0f * value;
    }
  }
  CHECK_TRUE(device_rows.ToHost() == rows);
  CHECK_TRUE(device_plane.ToHost() == plane);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
