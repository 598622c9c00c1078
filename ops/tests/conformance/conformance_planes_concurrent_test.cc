// SPDX-License-Identifier: Apache-2.0
// Planes on every engine: zeros, growth with and without moving, released memory, refusals, and
// first values that are rows.
#include "ops/tests/conformance/engine_fixture.h"

namespace sok {
namespace {

using testing::CallWithArrays;
using testing::Floats;
using testing::Ids;
using testing::OnAllEngines;
using testing::Options;
using testing::TestedEngine;
using testing::TestedTable;
using testing::Words;

Floats Read(const TestedEngine& engine, const Plane& plane, int64_t row_id) {
  CallWithArrays arrays(engine);
  return arrays.DownloadRows(plane.data().From(row_id), 1);
}

void Write(const TestedEngine& engine, const Plane& plane, int64_t row_id, float value) {
  CallWithArrays arrays(engine);
  const Floats row(static_cast<size_t>(plane.width()), value);
  engine.engine.ScatterRows(arrays.call(), 1, arrays.Upload(Ids{row_id}), arrays.Upload(row),
                            plane.data());
}

SOK_TEST(RowsAreZerosUntilWrittenAndAfterRelease) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const bool rows_fill_in_order : {true, false}) {
      const auto plane =
          engine.MakePlane({9000, 3, rows_fill_in_order, testing::ElementUnderTest()});
      CHECK_EQ(plane->width(), 3);
      for (int time = 0; time < 2; ++time) {
        plane->Reserve(9000);
        CHECK_TRUE(plane->num_rows() >= 9000);
        plane->ExpectRows(9000);
        for (const int64_t row : {0, 4000, 8999}) {
          CHECK_TRUE(Read(engine, *plane, row) == Floats(3, 0.0f));
          Write(engine, *plane, row, 2.0f);
          CHECK_TRUE(Read(engine, *plane, row) == Floats(3, 2.0f));
        }
        plane->Release();
      }
    }
  });
}

SOK_TEST(APlaneOfADeclaredCapacityStaysWhereItIs) {
  OnAllEngines([](const TestedEngine& engine) {
    const auto plane = engine.MakePlane({1'000'000, 8});
    CHECK_TRUE(!plane->MovesWhenItGrows());
    plane->Reserve(1);
    const void* const data = plane->data().data;
    plane->Reserve(1'000'000);
    CHECK_EQ(plane->data().data, data);
    CHECK_EQ(plane->num_rows(), 1'000'000);
  });
}

SOK_TEST(WithoutACapacityAPlaneGrowsAndKeepsWhatItHolds) {
  constexpr int64_t kWidth = 1 << 18;  // 1 MiB per row
  OnAllEngines([](const TestedEngine& engine) {
    const auto plane = engine.MakePlane({kMaxRows, kWidth, true, testing::ElementUnderTest()});
    plane->Reserve(2);
    plane->ExpectRows(2);
    Write(engine, *plane, 1, 3.0f);
    const int64_t num_rows = plane->num_rows();
    plane->Reserve(num_rows + 5);
    CHECK_TRUE(plane->num_rows() >= num_rows + 5);
    CHECK_TRUE(Read(engine, *plane, 1) == Floats(kWidth, 3.0f));
    CHECK_TRUE(Read(engine, *plane, num_rows + 4) == Floats(kWidth, 0.0f));
    plane->Reserve(1);
    CHECK_TRUE(plane->num_rows() >= num_rows + 5);
  });
}

/// The caller must reserve memory in planes that move; otherwise there is an error.
SOK_TEST(ATableDoesNotMovePlanesByItself) {
  OnAllEngines([](const TestedEngine& engine) {
    TableOptions options = testing::Options(true, kMaxRows, 1 << 18);
    options.first_value.kind = FirstValue::Kind::kConstant;
    const TestedTable table(engine, options);
    Ids keys;
    for (int64_t key = 0; key < 70; ++key) keys.push_back(key);
    if (table.rows().MovesWhenItGrows()) {
      CHECK_THROWS(ErrorCode::kFailedPrecondition, (Words{"'users'", "70 are needed", "reserve"}),
                   table.FindOrInsert(keys));
      CHECK_EQ(table.num_keys(), 0);
      table.FindOrInsert({0, 1});
      table.Reserve(70);
    }
    CHECK_TRUE(table.FindOrInsert(keys) == keys);
    table.CheckIsFresh(0, 0);
    table.CheckIsFresh(69, 69);
  });
}

SOK_TEST(WhatCannotBeIsRefused) {
  OnAllEngines([](const TestedEngine& engine) {
    const auto check = [&](ErrorCode code, const PlaneOptions& options, const Words& words) {
      CHECK_THROWS(code, words, engine.MakePlane(options));
    };
    check(ErrorCode::kInvalidArgument, {0, 3}, {"at least one row of one float"});
    check(ErrorCode::kInvalidArgument, {3, 0}, {"at least one row of one float"});
    for (const PlaneOptions& options :
         {PlaneOptions{int64_t{1} << 55, 8}, PlaneOptions{int64_t{1} << 50, 1 << 20},
          PlaneOptions{INT64_MAX, INT64_MAX}}) {
      check(ErrorCode::kOutOfMemory, options,
            {std::to_string(options.capacity), "2^47 bytes", "declare a smaller capacity"});
    }
    check(ErrorCode::kInvalidArgument, {kMaxRows, int64_t{1} << 31},
          {"rows of 2147483648 floats", "limit"});
  });
}

SOK_TEST(RefusedMemoryLeavesAPlaneAsItWas) {
  OnAllEngines([](const TestedEngine& engine) {
    const auto plane = engine.MakePlane({kMaxRows, int64_t{1} << 22});  // 16 MiB per row
    try {
      plane->Reserve(1);
    } catch (const Error& error) {  // a small machine
      CHECK_TRUE(error.code() == ErrorCode::kOutOfMemory);
      return;
    }
    const int64_t num_rows = plane->num_rows();
    CHECK_THROWS(ErrorCode::kOutOfMemory, Words{}, plane->Reserve(int64_t{1} << 31));
    CHECK_EQ(plane->num_rows(), num_rows);
    CHECK_EQ(Read(engine, *plane, 0).front(), 0.0f);
  });
}

// The thread sanitizer leaves little address space.
#if defined(__SANITIZE_THREAD__)
constexpr int kTables = 10;
#else
constexpr int kTables = 500;
#endif

SOK_TEST(ManyTablesWithoutACapacityShareTheAddressSpace) {
  OnAllEngines([](const TestedEngine& engine) {
    std::vector<std::shared_ptr<Plane>> planes;
    const int num_tables = engine.storage ? 10 : kTables;  // a file each
    for (int table = 0; table < num_tables; ++table) {
      planes.push_back(engine.MakePlane({kMaxRows, 64}));
      planes.push_back(engine.MakePlane({kMaxRows, 64}));
      planes.push_back(engine.MakePlane({kMaxRows, 64}));
    }
    planes.back()->Reserve(100);
    planes.back()->ExpectRows(100);
    Write(engine, *planes.back(), 99, 1.0f);
  });
}

SOK_TEST(FirstValuesAreRowsThatAreGiven) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const int64_t dim : {1, 3, 8}) {
      Floats given;
      for (int64_t i = 0; i < 10 * dim; ++i) given.push_back(0.5f * static_cast<float>(i));
      CallWithArrays arrays(engine);
      TableOptions options = Options(true, 3000, dim);
      options.first_value = {FirstValue::Kind::kRows, 0.0f, 0.0f, 0, 10, arrays.Upload(given)};
      const TestedTable table(engine, options);
      const Ids keys = {0, 9, 10, -1, -10, 1'000'003, INT64_MAX, INT64_MIN};
      const Ids of_period = {0, 9, 0, 9, 0, 3, 7, 2};
      const Ids row_ids = table.FindOrInsert(keys);
      for (size_t i = 0; i < keys.size(); ++i) {
        const auto first = given.begin() + of_period[i] * dim;
        CHECK_TRUE(table.Row(row_ids[i]) == Floats(first, first + dim));
      }
    }
    TableOptions options = Options(true, 10);
    options.first_value.kind = FirstValue::Kind::kRows;
    CHECK_THROWS(ErrorCode::kInvalidArgument, (Words{"'rows' needs rows", "got 0"}),
                 const TestedTable table(engine, options));
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
