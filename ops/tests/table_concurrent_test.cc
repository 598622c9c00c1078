// SPDX-License-Identifier: Apache-2.0
// Tables under several threads; meant for the thread sanitizer as much as for its checks.
#include <atomic>
#include <thread>

#include "ops/tests/table_fixture.h"

namespace sok {
namespace {

using testing::Options;
using testing::TableWithRows;
using Ids = std::vector<int64_t>;

constexpr int kThreads = 4;
constexpr int64_t kBatch = 500;

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

/// Whoever sees a key sees its row, whoever inserted it, and all see the same row.
void CheckSharedInserts(bool use_hash_index) {
  constexpr int64_t kKeys = 20'000;
  const TableWithRows table(Options(use_hash_index, kKeys));
  const auto executor = MakeThreadExecutor(2);
  RunThreads([&](int thread) {
    for (int64_t step = 0; step < 100; ++step) {
      const Ids keys = Batch(step * 180 + thread * 11, kKeys);
      const bool inserts = (thread + step) % 3 != 0;
      const Ids row_ids = inserts ? table.FindOrInsert(keys, nullptr, *executor) : table.Find(keys);
      for (size_t i = 0; i < keys.size(); i += 10) {
        if (row_ids[i] != kNoRow) table.CheckIsFresh(keys[i], row_ids[i]);
      }
      CHECK_TRUE(table->size() <= kKeys && table->num_rows() <= kKeys);
    }
  });
  const TableEntries entries = table->Export();
  CHECK_EQ(TableWithRows::Size(entries.keys), table->size());
  CHECK_TRUE(table.Find(entries.keys) == entries.row_ids);
}

/// Batches large enough that several threads insert them, and grow the index, while others read.
SOK_TEST(LargeBatchesGrowTheIndexBesideReaders) {
  constexpr int64_t kKeys = 60'000;
  const TableWithRows table(Options(true, kKeys, 1));
  const auto executor = MakeThreadExecutor(3);
  RunThreads([&](int thread) {
    for (int64_t step = 1; step <= 4; ++step) {
      Ids keys;
      for (int64_t key = thread; key < kKeys * step / 4; ++key) keys.push_back(key * 977);
      const bool inserts = thread < 2;
      const Ids row_ids = inserts ? table.FindOrInsert(keys, nullptr, *executor) : table.Find(keys);
      for (size_t i = 0; i < keys.size(); i += 501) {
        if (row_ids[i] != kNoRow) table.CheckIsFresh(keys[i], row_ids[i]);
      }
    }
  });
  const TableEntries entries = table->Export();
  CHECK_EQ(TableWithRows::Size(entries.keys), kKeys);
  CHECK_TRUE(table.Find(entries.keys) == entries.row_ids);
}

SOK_TEST(SharedInsertsIntoAHashTable) { CheckSharedInserts(true); }
SOK_TEST(SharedInsertsIntoADirectTable) { CheckSharedInserts(false); }

/// Each thread inserts, changes and erases keys of its own; rows of one are never those of another.
void CheckOwnKeys(bool use_hash_index) {
  const TableWithRows table(Options(use_hash_index, kThreads * kBatch));
  std::atomic<bool> is_done{false};
  std::thread reader([&] {
    while (!is_done) {
      table.Find(Batch(0, kThreads * kBatch));
      table->Export();
    }
  });
  RunThreads([&](int thread) {
    Ids keys;
    for (int64_t i = 0; i < kBatch; ++i) keys.push_back(i * kThreads + thread);
    for (int step = 0; step < 50; ++step) {
      const Ids row_ids = table.FindOrInsert(keys);
      for (size_t i = 0; i < keys.size(); ++i) {
        table.CheckIsFresh(keys[i], row_ids[i]);
        table.rows(row_ids[i])[0] = static_cast<float>(thread);
      }
      CHECK_TRUE(table.Find(keys) == row_ids);
      for (const int64_t row_id : row_ids) {
        CHECK_EQ(table.rows(row_id)[0], static_cast<float>(thread));
      }
      CHECK_EQ(table.Erase(keys), kBatch);
    }
  });
  is_done = true;
  reader.join();
  CHECK_EQ(table->size(), 0);
}

SOK_TEST(OwnKeysInAHashTable) { CheckOwnKeys(true); }
SOK_TEST(OwnKeysInADirectTable) { CheckOwnKeys(false); }

SOK_TEST(AFullTableRefusesSomeAndLosesNothing) {
  const TableWithRows table(Options(true, 2 * kBatch));
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
  CHECK_EQ(table->size(), 2 * kBatch);
}

SOK_TEST(ClearAmongReaders) {
  for (const bool use_hash_index : {true, false}) {
    const TableWithRows table(Options(use_hash_index, 10'000));
    RunThreads([&](int thread) {
      for (int step = 0; step < 30; ++step) {
        if (thread == 0) {
          table->Clear();
        } else {
          table.FindOrInsert(Batch(step * 100, 10'000));
          table.Find(Batch(step * 100 + 50, 10'000));
        }
      }
    });
    table->Clear();
    CHECK_EQ(table->size(), 0);
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
