// SPDX-License-Identifier: Apache-2.0
// Tables under every kind of placement, on every engine: the rows of keys, and keys without a row.
#include <algorithm>
#include <random>

#include "ops/tests/conformance/engine_fixture.h"
#include "ops/tests/conformance/table_model.h"

namespace sok {
namespace {

using testing::Ids;
using testing::OnAllEngines;
using testing::Size;
using testing::TableModel;
using testing::TestedEngine;
using testing::TestedTable;
using testing::Words;
using Kind = Placement::Kind;

constexpr int64_t kNumRanks = 3;
constexpr int64_t kNumKeys = 2999;  // of all ranks: the last one has a key less

TableOptions Placed(bool use_hash_index, Kind kind, int64_t rank = 1) {
  TableOptions options = testing::Options(use_hash_index, 1000);
  options.placement.kind = kind;
  options.placement.num_ranks = kNumRanks;
  options.placement.rank = rank;
  options.placement.owner_rank = 1;
  options.placement.num_keys = kNumKeys;
  return options;
}

/// The error of one call.
template <typename Call>
std::string MessageOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK_TRUE(error.code() == ErrorCode::kInvalidArgument);
    return error.what();
  }
  testing::Fail(__FILE__, __LINE__, "nothing was thrown");
}

/// The keys that have a row on this rank, in the order of rows.
Ids OwnKeys(const TableOptions& options) {
  Ids keys;
  const int64_t num_rows = options.placement.NumRows(options.capacity);
  for (int64_t row = 0; row < num_rows; ++row) keys.push_back(options.placement.GlobalKey(row));
  return keys;
}

SOK_TEST(WithoutAHashIndexTheRowIsTheLocalKey) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const Kind kind : {Kind::kModulo, Kind::kOneRank, Kind::kRange, Kind::kReplicated}) {
      for (const int64_t rank : {0, 1, 2}) {
        const TableOptions options = Placed(false, kind, rank);
        const TestedTable table(engine, options);
        TableModel model(options);
        Ids keys = OwnKeys(options);
        const bool is_shared_out = kind == Kind::kModulo || kind == Kind::kRange;
        CHECK_EQ(Size(keys), kind == Kind::kOneRank && rank != 1 ? 0
                             : is_shared_out && rank == 2        ? 999
                                                                 : 1000);
        std::shuffle(keys.begin(), keys.end(), std::mt19937_64(3));
        keys.resize(keys.size() / 3);
        CHECK_TRUE(table.FindOrInsert(keys) == model.FindOrInsert(keys));
        CHECK_EQ(table.num_rows(), model.num_rows());
        const TestedTable::Entries entries = table.Export();
        CHECK_TRUE(model.Find(entries.keys) == entries.row_ids);
        CHECK_TRUE(std::is_sorted(entries.row_ids.begin(), entries.row_ids.end()));
        table.InsertAll();
        CHECK_TRUE(table.Export().keys == OwnKeys(options));
        if (keys.empty()) continue;
        table.CheckIsFresh(keys.front(), model.Find(keys).front());
        table.CheckIsFresh(OwnKeys(options).back(), Size(OwnKeys(options)) - 1);
      }
    }
  });
}

SOK_TEST(WithAHashIndexKeysStayGlobal) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const Kind kind : {Kind::kModulo, Kind::kOneRank, Kind::kRange, Kind::kReplicated}) {
      const TestedTable table(engine, Placed(true, kind));
      CHECK_TRUE(table.FindOrInsert({-5, 3000, 1}) == (Ids{0, 1, 2}));
      CHECK_TRUE(table.Export().keys == (Ids{-5, 3000, 1}));
      table.InsertAll();  // there is no "all"
      CHECK_EQ(table.num_keys(), 3);
    }
  });
}

SOK_TEST(AForeignKeyIsNamedAndChangesNothing) {
  struct Case {
    Kind kind;
    int64_t key;
    Words words;
  };
  const std::vector<Case> cases = {
      {Kind::kModulo, 5, {"key 5", "belongs to rank 2 of 3", "this is rank 1", "key % world_size"}},
      {Kind::kModulo, 3001, {"key 3001", "outside of its range, 0 to 2998"}},
      {Kind::kModulo, -2, {"key -2", "0 to 2998", "raise the capacity", "with a hash index"}},
      {Kind::kModulo, INT64_MAX, {"9223372036854775807", "0 to 2998"}},
      {Kind::kModulo, INT64_MIN, {"-9223372036854775808", "0 to 2998"}},
      {Kind::kOneRank, 1000, {"key 1000", "0 to 999"}},
      {Kind::kOneRank, -1, {"key -1", "0 to 999"}},
      {Kind::kRange, 999, {"key 999", "belongs to rank 0 of 3"}},
      {Kind::kRange, 2000, {"key 2000", "belongs to rank 2 of 3"}},
      {Kind::kRange, 2999, {"key 2999", "0 to 2998"}},
      {Kind::kRange, INT64_MIN, {"0 to 2998"}},
      {Kind::kReplicated, 1000, {"key 1000", "0 to 999"}},
      {Kind::kReplicated, INT64_MIN, {"0 to 999"}},
  };
  OnAllEngines([&](const TestedEngine& engine) {
    for (const Case& of_one : cases) {
      const TableOptions options = Placed(false, of_one.kind);
      const TestedTable table(engine, options);
      const Ids own = OwnKeys(options);
      table.FindOrInsert({own[4], own[2]});
      Ids keys(own.begin(), own.begin() + 40);  // several tasks; the second one has the key
      keys[20] = of_one.key;
      keys[33] = -77;
      const std::string message = MessageOf([&] { table.Find(keys); });
      for (const std::string& word : of_one.words) {
        if (message.find(word) == std::string::npos) CHECK_EQ(message, word);
      }
      CHECK_EQ(message, MessageOf([&] { table.FindOrInsert(keys); }));
      CHECK_EQ(message, MessageOf([&] { table.Gather(keys); }));
      CHECK_EQ(message, MessageOf([&] { table.Erase(keys); }));
      CHECK_TRUE(table.Export().row_ids == (Ids{2, 4}));
    }
  });
}

SOK_TEST(OnARankThatOwnsNothingEveryKeyIsForeign) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, Placed(false, Kind::kOneRank, 2));
    CHECK_THROWS(ErrorCode::kInvalidArgument, (Words{"belongs to rank 1 of 3", "this is rank 2"}),
                 table.FindOrInsert({0}));
    table.InsertAll();
    CHECK_EQ(table.num_keys(), 0);
  });
}

SOK_TEST(ErasedKeysComeBackToTheirRow) {
  OnAllEngines([](const TestedEngine& engine) {
    const TestedTable table(engine, testing::Options(false, 1000));
    table.FindOrInsert({3, 500, 999});
    table.WriteRow(500, 77.0f);
    CHECK_EQ(table.Erase({500, 4, 500}), 1);
    CHECK_TRUE(table.Find({3, 500, 999}) == (Ids{3, kNoRow, 999}));
    CHECK_TRUE(table.Export().keys == (Ids{3, 999}));
    CHECK_EQ(table.num_rows(), 1000);
    table.FindOrInsert({500});
    table.CheckIsFresh(500, 500);
  });
}

SOK_TEST(PlacementsAreChecked) {
  OnAllEngines([](const TestedEngine& engine) {
    const auto check = [&](Kind kind, auto change, const Words& words) {
      TableOptions options = Placed(false, kind);
      change(options);
      CHECK_THROWS(ErrorCode::kInvalidArgument, words, engine.engine.MakeTable(options));
    };
    check(Kind::kModulo, [](TableOptions& options) { options.placement.rank = 3; }, {"rank"});
    check(Kind::kOneRank, [](TableOptions& options) { options.placement.owner_rank = 3; },
          {"owner_rank", "got 3"});
    check(Kind::kRange, [](TableOptions& options) { options.placement.num_keys = 0; },
          {"num_keys", "got 0"});
    check(Kind::kRange, [](TableOptions& options) { options.capacity = 999; },
          {"owns 1000 keys", "capacity is 999"});
  });
}

#ifndef SOK_TEST_ON_GPU
SOK_TEST(RowsOfManyRanksReachFarOnTheCpu) {
  TableOptions options = testing::Options(false, int64_t{1} << 40);
  options.placement.num_ranks = 1 << 20;
  const TestedEngine& cpu = testing::TestedEngines().front();
  const auto direct = cpu.engine.MakeTable(options);
  const int64_t key = (int64_t{1} << 60) - (1 << 20);
  int64_t row_id = 0;
  direct->FindOrInsert(*cpu.NewCall(), {1, &key}, {}, &row_id);
  CHECK_EQ(row_id, (int64_t{1} << 40) - 1);
}
#endif

/// On a device row ids have 31 bits.
SOK_TEST(ACapacityBeyondRowIdsIsRefused) {
  OnAllEngines([](const TestedEngine& engine) {
    if (engine.engine.IsHostMemory()) return;
    CHECK_THROWS(ErrorCode::kInvalidArgument, (Words{"'users'", "below 2^31"}),
                 engine.engine.MakeTable(testing::Options(false, int64_t{1} << 31)));
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
