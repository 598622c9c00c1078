// SPDX-License-Identifier: Apache-2.0
// A device table that owns its rows: updates by key, export, clearing.
#include <thread>

#include "ops/device/stored_device_table.h"
#include "ops/tests/device_fixture.h"

namespace sok {
namespace {

using testing::DeviceArray;
using testing::Ids;
using testing::Options;
using testing::QueueForTests;
using testing::Size;
using testing::TestQueue;
using Floats = std::vector<float>;

/// Rows of one float, on arrays of the host.
struct Stored : private QueueForTests {
  explicit Stored(int64_t capacity, int64_t dim = 1) : table(queue, Options(capacity, dim)) {}

  DeviceArray<int64_t> Device(const Ids& keys) { return {queue, keys}; }
  DeviceArray<float> Device(const Floats& values) { return {queue, values}; }

  void Insert(const Ids& keys, const Floats& rows) {
    const DeviceArray<int64_t> row_ids(queue, Size(keys));
    table.Insert({}, Size(keys), Device(keys).data(), Device(rows).data(), row_ids.data());
  }
  Floats Gather(const Ids& keys) {
    const DeviceArray<float> rows(queue, Size(keys) * table.dim());
    table.Gather({}, Size(keys), Device(keys).data(), rows.data());
    return rows.ToHost();
  }
  int64_t ScatterAdd(const Ids& keys, const Floats& values) {
    return table.ScatterAdd({}, Size(keys), Device(keys).data(), Device(values).data());
  }
  int64_t Assign(const Ids& keys, const Floats& values) {
    return table.Assign({}, Size(keys), Device(keys).data(), Device(values).data());
  }
  int64_t Erase(const Ids& keys) { return table.Erase({}, Size(keys), Device(keys).data()); }
  std::pair<Ids, Floats> Export() {
    const int64_t size = table.size({});
    const DeviceArray<int64_t> keys(queue, size);
    const DeviceArray<float> rows(queue, size * table.dim());
    table.Export({}, size, keys.data(), rows.data());
    return {keys.ToHost(), rows.ToHost()};
  }

  StoredDeviceTable<TestQueue> table;
};

SOK_TEST(RepeatedKeysAddUpAndTheLastAssignedWins) {
  Stored stored(10);
  stored.Insert({4, 5, 6}, {0, 0, 0});
  CHECK_EQ(stored.ScatterAdd({5, 4, 5}, {1, 3, 10}), 3);
  CHECK_TRUE(stored.Gather({4, 5, 6}) == (Floats{3, 11, 0}));
  CHECK_EQ(stored.Assign({4, 6, 4}, {1, 2, 7}), 3);
  CHECK_TRUE(stored.Gather({4, 5, 6}) == (Floats{7, 11, 2}));
  CHECK_EQ(stored.ScatterAdd({}, {}), 0);
}

SOK_TEST(AnUnknownKeyChangesNothing) {
  Stored stored(10);
  stored.Insert({4, 5}, {1, 2});
  CHECK_EQ(stored.ScatterAdd({4, 9, 5, 8}, {1, 1, 1, 1}), 1);
  CHECK_EQ(stored.Assign({4, 5, 5, 8}, {9, 9, 9, 9}), 3);
  CHECK_TRUE(stored.Gather({4, 5}) == (Floats{1, 2}));
}

SOK_TEST(LargeBatchesOfFewKeys) {
  constexpr int64_t kDim = 4;
  Stored stored(2000, kDim);
  Ids keys;
  for (int64_t i = 0; i < 3000; ++i) keys.push_back(i % 7 * 1000);
  stored.Insert(keys, Floats(3000 * kDim, 1.0f));
  CHECK_EQ(stored.ScatterAdd(keys, Floats(3000 * kDim, 0.5f)), 3000);
  const Floats rows = stored.Gather(keys);
  for (int64_t i = 0; i < 3000; ++i) {
    const int64_t occurrences = 3000 / 7 + (i % 7 < 3000 % 7);
    CHECK_EQ(rows[static_cast<size_t>(i * kDim)], 1.0f + 0.5f * static_cast<float>(occurrences));
  }
  Floats positions;
  for (int64_t i = 0; i < 3000 * kDim; ++i) positions.push_back(static_cast<float>(i / kDim));
  stored.Assign(keys, positions);
  const Floats last = stored.Gather({keys.begin(), keys.begin() + 7});
  for (int64_t i = 0; i < 7; ++i) {
    CHECK_EQ(last[static_cast<size_t>(i * kDim)], static_cast<float>((2999 - i) / 7 * 7 + i));
  }
}

/// What one thread works on, made before the threads start: the queue is not theirs.
struct ThreadArrays {
  static constexpr int64_t kKeys = 600;

  ThreadArrays(Stored& stored, int64_t thread)
      : keys(stored.Device(KeysOf(thread))),
        ones(stored.Device(Floats(kKeys, 1.0f))),
        rows(stored.Device(Floats(kKeys, 0.0f))),
        row_ids(stored.Device(Ids(kKeys))) {}

  static Ids KeysOf(int64_t thread) {
    Ids keys;
    for (int64_t i = 0; i < kKeys; ++i) keys.push_back(i * 3 + thread);
    return keys;
  }

  DeviceArray<int64_t> keys;
  DeviceArray<float> ones;
  DeviceArray<float> rows;
  DeviceArray<int64_t> row_ids;
};

SOK_TEST(ThreadsShareATable) {
  Stored stored(10'000);
  std::vector<ThreadArrays> arrays;
  for (int64_t t = 0; t < 3; ++t) arrays.emplace_back(stored, t);
  std::vector<std::thread> threads;
  for (ThreadArrays& mine : arrays) {
    threads.emplace_back([&stored, &mine] {
      const int64_t count = ThreadArrays::kKeys;
      for (int turn = 0; turn < 5; ++turn) {
        stored.table.Insert({}, count, mine.keys.data(), mine.ones.data(), mine.row_ids.data());
        CHECK_EQ(stored.table.ScatterAdd({}, count, mine.keys.data(), mine.ones.data()), count);
        stored.table.Gather({}, count, mine.keys.data(), mine.rows.data());
        CHECK_EQ(stored.table.Erase({}, count, mine.keys.data()), count);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const ThreadArrays& of_one : arrays) {
    CHECK_TRUE(of_one.rows.ToHost() == Floats(ThreadArrays::kKeys, 2.0f));
  }
  CHECK_EQ(stored.table.size({}), 0);
}

SOK_TEST(ExportFollowsRowIdsAndClearForgets) {
  Stored stored(10);
  stored.Insert({30, 10, 20}, {3, 1, 2});
  CHECK_EQ(stored.Erase({10, 10, 99}), 1);
  stored.Insert({40}, {4});
  CHECK_TRUE(stored.Export() == (std::pair<Ids, Floats>{{30, 40, 20}, {3, 4, 2}}));
  stored.table.Clear({});
  CHECK_EQ(stored.table.size({}), 0);
  CHECK_EQ(stored.table.row_bytes(), 0);
  CHECK_TRUE(stored.Export().first.empty());
  stored.Insert({7}, {5});
  CHECK_TRUE(stored.Gather({7}) == Floats{5});
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
