// SPDX-License-Identifier: Apache-2.0
// The engine that ops on a GPU call, on CPU threads: several callers, tables that come and go.
#include <cmath>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "ops/device/device_engine.h"
#include "ops/tests/check.h"
#include "ops/tests/table_fixture.h"

namespace sok {
namespace {

constexpr DeviceStream kStream = nullptr;
constexpr int64_t kDim = 4;

TableOptions Options(bool use_hash_index, int64_t capacity = 1000) {
  TableOptions options;
  options.name = "table";
  options.dim = kDim;
  options.capacity = capacity;
  options.use_hash_index = use_hash_index;
  options.first_value.kind = FirstValue::Kind::kConstant;
  options.first_value.low_or_mean = 0.5f;
  return options;
}

std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> keys(static_cast<size_t>(end - begin));
  std::iota(keys.begin(), keys.end(), begin);
  return keys;
}

/// A table with its rows and Adam's state; on CPU threads the host reads what the device holds.
struct TrainedTable {
  explicit TrainedTable(const TableOptions& options)
      : table(HostEngine().MakeTable(options)),
        rows(HostEngine().MakePlane(options.capacity, kDim)),
        state(HostEngine().MakePlane(options.capacity, 2 * kDim)),
        planes{rows.get(), {{state.get(), 0.0f}}} {}

  std::vector<int64_t> Insert(const std::vector<int64_t>& keys) {
    std::vector<int64_t> row_ids(keys.size());
    table->FindOrInsert(kStream, static_cast<int64_t>(keys.size()), keys.data(), false, nullptr,
                        planes, row_ids.data());
    return row_ids;
  }

  std::shared_ptr<EngineTable> table;
  std::shared_ptr<EnginePlane> rows;
  std::shared_ptr<EnginePlane> state;
  EnginePlanes planes;
};

SOK_TEST(AdamMovesRowsInUseOnly) {
  for (const bool use_hash_index : {true, false}) {
    TrainedTable trained(Options(use_hash_index));
    const std::vector<int64_t> row_ids = trained.Insert({3, 9, 3, 5});
    const int64_t num_rows = trained.table->size(kStream).num_rows;
    CHECK_EQ(num_rows, use_hash_index ? 3 : 10);
    CHECK_EQ(trained.table->size(kStream).num_keys, int64_t{3});
    const float untouched = 7.0f;
    if (!use_hash_index) trained.rows->data()[4 * kDim] = untouched;  // key 4 has not come
    const std::vector<float> gradient(kDim, 1.0f);
    const AdamStep step{0.1f, 0.9f, 0.999f, 1e-8f};
    trained.table->ApplyAdam(kStream, step, trained.rows->data(), trained.state->data(), 1,
                             row_ids.data(), gradient.data());
    const float moved = 0.5f - 0.1f * 0.1f / std::sqrt(0.001f);
    CHECK_TRUE(std::abs(trained.rows->data()[row_ids[0] * kDim] - moved) < 1e-5f);
    CHECK_EQ(trained.rows->data()[row_ids[1] * kDim], 0.5f);  // m is zero still
    if (!use_hash_index) CHECK_EQ(trained.rows->data()[4 * kDim], untouched);
  }
}

SOK_TEST(RowsThatNobodyHasAreFound) {
  TrainedTable trained(Options(true));
  trained.Insert({1, 2});
  const std::vector<int64_t> rows = {0, 1, 2, -1};
  CHECK_EQ(trained.table->FirstWithoutRow(kStream, 2, rows.data()), int64_t{2});
  CHECK_EQ(trained.table->FirstWithoutRow(kStream, 4, rows.data()), int64_t{2});
  CHECK_EQ(trained.table->FirstWithoutRow(kStream, 1, rows.data() + 3), int64_t{0});
}

SOK_TEST(InsertAllGivesEveryRowItsFirstValue) {
  TrainedTable trained(Options(false, 100));
  trained.Insert({5});
  trained.rows->data()[5 * kDim] = 2.0f;
  trained.table->InsertAll(kStream, trained.planes);
  CHECK_EQ(trained.table->size(kStream).num_keys, int64_t{100});
  CHECK_EQ(trained.rows->data()[5 * kDim], 2.0f);
  CHECK_EQ(trained.rows->data()[99 * kDim + 3], 0.5f);
}

SOK_TEST(FullTablesAndForeignKeysThrowAndLoseNothing) {
  TrainedTable trained(Options(true, 10));
  trained.Insert(Range(0, 10));
  CHECK_THROWS(ErrorCode::kOutOfCapacity, {"is full"}, trained.Insert({10}));
  CHECK_EQ(trained.table->size(kStream).num_keys, int64_t{10});
  TrainedTable direct(Options(false, 10));
  CHECK_THROWS(ErrorCode::kInvalidArgument, {"outside of its range"}, direct.Insert({10}));
  CHECK_EQ(direct.table->size(kStream).num_keys, int64_t{0});
}

SOK_TEST(ThreadsShareTheEngine) {
  TrainedTable shared(Options(true, 100'000));
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&shared, t] {
      for (int64_t i = 0; i < 20; ++i) {
        const std::vector<int64_t> keys = Range(100 * i, 100 * i + 300 + t);
        const std::vector<int64_t> row_ids = shared.Insert(keys);
        std::vector<float> gathered(keys.size() * kDim);
        HostEngine().GatherRows(kStream, static_cast<int64_t>(keys.size()), kDim, row_ids.data(),
                                shared.rows->data(), gathered.data());
        CHECK_EQ(gathered.back(), 0.5f);
        TrainedTable own(Options(t == 0));  // tables are made and freed meanwhile
        own.Insert(Range(0, 200));
        std::vector<int64_t> distinct(keys.size());
        std::vector<int32_t> inverse(keys.size());
        CHECK_EQ(HostEngine().DistinctKeys(kStream, static_cast<int64_t>(keys.size()), keys.data(),
                                           distinct.data(), inverse.data()),
                 static_cast<int64_t>(keys.size()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(shared.table->size(kStream).num_keys, int64_t{19 * 100 + 302});
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
