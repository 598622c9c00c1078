// SPDX-License-Identifier: Apache-2.0
// Every engine under several threads; for the thread sanitizer as much as for its own checks.
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "ops/tests/conformance/engine_fixture.h"

namespace sok {
namespace {

using testing::CallWithArrays;
using testing::Ids;
using testing::OnAllEngines;
using testing::Options;
using testing::Size;
using testing::TestedEngine;
using testing::TestedTable;

constexpr int kThreads = 4;
constexpr int64_t kBatch = 300;

void RunThreads(const std::function<void(int thread)>& body) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(body, thread);
  for (std::thread& thread : threads) thread.join();
}

Ids Batch(int64_t first_key, int64_t num_keys) {
  Ids keys;
  for (int64_t i = 0; i < kBatch; ++i) keys.push_back((first_key + i * 7) % num_keys);
  return keys;
}

/// A thread that finds a key sees its row, whoever inserted it; all see the same row.
void CheckSharedInserts(bool use_hash_index) {
  static constexpr int64_t kKeys = 5000;
  OnAllEngines([&](const TestedEngine& engine) {
    const TestedTable table(engine, Options(use_hash_index, kKeys));
    RunThreads([&](int thread) {
      for (int64_t step = 0; step < 25; ++step) {
        const Ids keys = Batch(step * 180 + thread * 11, kKeys);
        const bool inserts = (thread + step) % 3 != 0;
        const Ids row_ids = inserts ? table.FindOrInsert(keys) : table.Find(keys);
        for (size_t i = 0; i < keys.size(); i += 50) {
          if (row_ids[i] != kNoRow) table.CheckIsFresh(keys[i], row_ids[i]);
        }
        const TableSize size = table.GetSize();
        CHECK_TRUE(size.num_keys <= kKeys && size.num_rows <= kKeys);
      }
    });
    const TestedTable::Entries entries = table.Export();
    CHECK_EQ(Size(entries.keys), table.num_keys());
    CHECK_TRUE(table.Find(entries.keys) == entries.row_ids);
  });
}

SOK_TEST(SharedInsertsIntoAHashTable) { CheckSharedInserts(true); }
SOK_TEST(SharedInsertsIntoADirectTable) { CheckSharedInserts(false); }

/// Batches large enough for several threads to insert them and grow the index, while others read.
SOK_TEST(LargeBatchesGrowTheIndexBesideReaders) {
  static constexpr int64_t kKeys = 60'000;
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, kKeys, 1));
    RunThreads([&](int thread) {
      for (int64_t step = 1; step <= 4; ++step) {
        Ids keys;
        for (int64_t key = thread; key < kKeys * step / 4; ++key) keys.push_back(key * 977);
        const Ids row_ids = thread < 2    ? table.FindOrInsert(keys)
                            : thread == 2 ? table.Find(keys)
                                          : table.TryFindThenFind(keys);
        for (size_t i = 0; i < keys.size(); i += 2501) {
          if (row_ids[i] != kNoRow) table.CheckIsFresh(keys[i], row_ids[i]);
        }
      }
    });
    const TestedTable::Entries entries = table.Export();
    CHECK_EQ(Size(entries.keys), kKeys);
    CHECK_TRUE(table.Find(entries.keys) == entries.row_ids);
  });
}

/// Each thread inserts, changes and erases its own keys; no key sees another key's row.
void CheckOwnKeys(bool use_hash_index) {
  OnAllEngines([&](const TestedEngine& engine) {
    const TestedTable table(engine, Options(use_hash_index, kThreads * kBatch));
    std::atomic<bool> is_done{false};
    std::thread reader([&] {
      while (!is_done) {
        table.Find(Batch(0, kThreads * kBatch));
        table.Export();
      }
    });
    RunThreads([&](int thread) {
      Ids keys;
      for (int64_t i = 0; i < kBatch; ++i) keys.push_back(i * kThreads + thread);
      for (int step = 0; step < 8; ++step) {
        const Ids row_ids = table.FindOrInsert(keys);
        for (size_t i = 0; i < keys.size(); i += 37) {
          table.CheckIsFresh(keys[i], row_ids[i]);
          table.WriteRow(row_ids[i], static_cast<float>(thread));
        }
        CHECK_TRUE(table.Find(keys) == row_ids);
        for (size_t i = 0; i < keys.size(); i += 37) {
          CHECK_EQ(table.Row(row_ids[i])[0], static_cast<float>(thread));
        }
        CHECK_EQ(table.Erase(keys), kBatch);
      }
    });
    is_done = true;
    reader.join();
    CHECK_EQ(table.num_keys(), 0);
  });
}

SOK_TEST(OwnKeysInAHashTable) { CheckOwnKeys(true); }
SOK_TEST(OwnKeysInADirectTable) { CheckOwnKeys(false); }

/// A found row may be updated at once.
SOK_TEST(ARowThatIsFoundIsARowOfTheTable) {
  static constexpr int64_t kKeys = 200'000;
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      const TestedTable table(engine, Options(use_hash_index, kKeys, 1));
      std::thread writer([&] {
        Ids keys(kKeys);
        std::iota(keys.begin(), keys.end(), int64_t{0});
        table.FindOrInsert(keys);
      });
      for (Ids row_ids{kNoRow}; row_ids[0] == kNoRow;) {
        row_ids = table.Find({0});
        if (row_ids[0] != kNoRow) CHECK_EQ(table.FirstWithoutRow(row_ids), 1);
      }
      writer.join();
    }
  });
}

SOK_TEST(AFullTableRefusesSomeAndLosesNothing) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Options(true, 2 * kBatch));
    std::atomic<int64_t> num_refused{0};
    RunThreads([&](int thread) {
      Ids keys;
      for (int64_t i = 0; i < kBatch; ++i) keys.push_back(i + thread * kBatch);
      try {
        table.FindOrInsert(keys);
      } catch (const Error& error) {
        CHECK_TRUE(error.code() == ErrorCode::kOutOfCapacity);
        CHECK_TRUE(table.Find(keys) == Ids(keys.size(), kNoRow));
        ++num_refused;
      }
    });
    CHECK_EQ(num_refused.load(), kThreads - 2);
    CHECK_EQ(table.num_keys(), 2 * kBatch);
  });
}

SOK_TEST(ClearAmongReaders) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      const TestedTable table(engine, Options(use_hash_index, 10'000));
      RunThreads([&](int thread) {
        for (int step = 0; step < 15; ++step) {
          if (thread == 0) {
            table.Clear();
          } else {
            table.FindOrInsert(Batch(step * 100, 10'000));
            table.Find(Batch(step * 100 + 50, 10'000));
          }
        }
      });
      table.Clear();
      CHECK_EQ(table.num_keys(), 0);
    }
  });
}

SOK_TEST(TablesComeAndGoBesideOtherCalls) {
  OnAllEngines([](const TestedEngine& engine) {
    RunThreads([&](int thread) {
      for (int64_t i = 0; i < 5; ++i) {
        const TestedTable own(engine, Options(thread % 2 == 0, 1000));
        const Ids keys = Batch(i * 31, 999);
        const Ids row_ids = own.FindOrInsert(keys);
        CHECK_TRUE(own.Find(keys) == row_ids);
        CallWithArrays arrays(engine);
        CHECK_EQ(engine.engine.DistinctKeys(arrays.call(), kBatch, arrays.Upload(keys),
                                            arrays.Empty<int64_t>(kBatch),
                                            arrays.Empty<int32_t>(kBatch)),
                 kBatch);
        own.Clear();
      }
    });
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
