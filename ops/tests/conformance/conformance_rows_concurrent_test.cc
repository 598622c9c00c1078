// SPDX-License-Identifier: Apache-2.0
// Distinct keys, and rows by row id, on every engine.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ops/engine/row_sum.h"
#include "ops/tests/conformance/first_value_of_key.h"
#include "ops/tests/conformance/random_batch.h"

namespace sok {
namespace {

using testing::CallWithArrays;
using testing::Floats;
using testing::Ids;
using testing::Numbers;
using testing::OnAllEngines;
using testing::Random;
using testing::Size;
using testing::TestedEngine;
using testing::Words;

template <typename Key>
void CheckDistinct(const TestedEngine& engine, const std::vector<Key>& keys) {
  Ids expected_keys;
  Numbers expected_inverse;
  std::unordered_map<int64_t, int32_t> number_of;
  for (const Key key : keys) {
    const auto [entry, is_first] = number_of.emplace(key, static_cast<int32_t>(number_of.size()));
    if (is_first) expected_keys.push_back(key);
    expected_inverse.push_back(entry->second);
  }
  CallWithArrays arrays(engine);
  auto* distinct = arrays.Empty<int64_t>(Size(keys));
  auto* inverse = arrays.Empty<int32_t>(Size(keys));
  const int64_t count =
      engine.engine.DistinctKeys(arrays.call(), Size(keys), arrays.Upload(keys), distinct, inverse);
  CHECK_TRUE(arrays.Download(distinct, count) == expected_keys);
  CHECK_TRUE(arrays.Download(inverse, Size(keys)) == expected_inverse);
}

template <typename Key>
std::vector<Key> RandomKeys(size_t count, uint64_t num_values, int shift, int64_t least = 0) {
  std::mt19937_64 random(count);
  std::vector<Key> keys;
  while (keys.size() < count) {
    const uint64_t value = random() % num_values << shift;
    keys.push_back(static_cast<Key>(static_cast<uint64_t>(least) + value));
  }
  return keys;
}

SOK_TEST(DistinctKeysAreNumberedByTheirFirstAppearance) {
  OnAllEngines([](const TestedEngine& engine) {
    CheckDistinct<int64_t>(engine, {});
    CheckDistinct<int64_t>(engine, {5});
    CheckDistinct<int64_t>(engine, {-1, INT64_MIN, 0, -1, INT64_MAX, INT64_MIN, 0, -1});
    CheckDistinct<uint32_t>(engine, {UINT32_MAX, 0, 1, UINT32_MAX, 1u << 31, 0});
    CheckDistinct<int32_t>(engine, {-1, 0, INT32_MIN, INT32_MAX, -1, INT32_MIN});
    for (const size_t count : {2, 31, 33, 1000, 20'000}) {
      for (const uint64_t num_values : {uint64_t{1}, uint64_t{900}, uint64_t{1} << 40}) {
        CheckDistinct(engine, RandomKeys<int64_t>(count, num_values, 0));
        CheckDistinct(engine, RandomKeys<int64_t>(count, num_values, 20));
        CheckDistinct(engine, RandomKeys<uint32_t>(count, num_values, 0));
      }
      for (const int64_t least : {INT64_MIN, int64_t{-450}, INT64_MAX - 899})  // dense
        CheckDistinct(engine, RandomKeys<int64_t>(count, 900, 0, least));
      CheckDistinct(engine, RandomKeys<uint32_t>(count, 900, 0, UINT32_MAX - 899));
    }
  });
}

SOK_TEST(ABatchOfTooManyKeysIsRefused) {
  OnAllEngines([](const TestedEngine& engine) {
    CallWithArrays arrays(engine);
    const int64_t* keys = nullptr;
    CHECK_THROWS(
        ErrorCode::kInvalidArgument, (Words{"2147483648", "into several batches"}),
        engine.engine.DistinctKeys(arrays.call(), kMaxBatchKeys + 1, keys, nullptr, nullptr));
  });
}

constexpr int64_t kNumRows = 500;
const Ids kRowIds = {7, kNoRow, 0, 499, 3, kNoRow, 250, 1};

/// Calls check(engine, dim, plane, rows for kRowIds), for dims with and without specialized loops.
template <typename Check>
void ForAllDims(const Check& check) {
  OnAllEngines([&](const TestedEngine& engine) {
    for (const int64_t dim : {1, 6, 16, 128}) {
      check(engine, dim, Random(kNumRows * dim, 1), Random(Size(kRowIds) * dim, 2));
    }
  });
}

/// Calls visit(column in the plane, column in the rows) for all rows present.
template <typename Visit>
void ForPresentColumns(int64_t dim, const Visit& visit) {
  for (int64_t i = 0; i < Size(kRowIds) * dim; ++i) {
    const int64_t row = kRowIds[static_cast<size_t>(i / dim)];
    if (row >= 0) visit(static_cast<size_t>(row * dim + i % dim), static_cast<size_t>(i));
  }
}

SOK_TEST(GatherCopiesPresentRows) {
  ForAllDims([](const TestedEngine& engine, int64_t dim, const Floats& plane, Floats rows) {
    CallWithArrays arrays(engine);
    float* out = arrays.Upload(rows);
    engine.engine.GatherRows(arrays.call(), Size(kRowIds), arrays.Upload(kRowIds),
                             arrays.UploadRows(plane, dim), out);
    ForPresentColumns(dim, [&](size_t in_plane, size_t in_rows) {
      rows[in_rows] = AsElement(testing::ElementUnderTest(), plane[in_plane]);
    });
    CHECK_TRUE(arrays.Download(out, Size(rows)) == rows);
  });
}

SOK_TEST(ScatterReplacesPresentRows) {
  ForAllDims([](const TestedEngine& engine, int64_t dim, Floats plane, const Floats& rows) {
    CallWithArrays arrays(engine);
    const RowsView out = arrays.UploadRows(plane, dim);
    engine.engine.ScatterRows(arrays.call(), Size(kRowIds), arrays.Upload(kRowIds),
                              arrays.Upload(rows), out);
    ForPresentColumns(dim,
                      [&](size_t in_plane, size_t in_rows) { plane[in_plane] = rows[in_rows]; });
    CHECK_TRUE(arrays.DownloadRows(out, Size(plane) / dim) == testing::AsElements(plane));
  });
}

SOK_TEST(AbsentRowsGetTheirFirstValues) {
  ForAllDims([](const TestedEngine& engine, int64_t dim, const Floats&, Floats rows) {
    Ids keys;
    for (int64_t i = 0; i < Size(kRowIds); ++i) keys.push_back(i * 1'000'003);
    const Floats given(static_cast<size_t>(7 * dim), 0.25f);
    using Kind = FirstValue::Kind;
    for (const auto kind : {Kind::kPreset, Kind::kUniform, Kind::kRows}) {
      CallWithArrays arrays(engine);
      FirstValue first_value{kind, 1.0f, 2.0f, FirstValueStream(3, "t"), 7};
      first_value.element = testing::ElementUnderTest();
      first_value.rows = arrays.Upload(given);
      float* out = arrays.Upload(rows);
      engine.engine.FillAbsentRows(arrays.call(), Size(kRowIds), dim, first_value,
                                   arrays.Upload(keys), arrays.Upload(kRowIds), out);
      for (size_t i = 0; i < kRowIds.size(); ++i) {
        if (kRowIds[i] >= 0) continue;
        if (kind == Kind::kRows) {
          std::fill_n(rows.begin() + static_cast<int64_t>(i) * dim, dim, 0.25f);
          continue;
        }
        WriteFirstValue(first_value, keys[i], dim, rows.data() + static_cast<int64_t>(i) * dim);
      }
      CHECK_TRUE(arrays.Download(out, Size(rows)) == rows);
    }
  });
}

SOK_TEST(ManyAbsentRowsGetTheirFirstValues) {
  OnAllEngines([](const TestedEngine& engine) {
    constexpr int64_t kCount = 3000;
    FirstValue first_value{FirstValue::Kind::kNormal, 0.0f, 1.0f, FirstValueStream(3, "t"), 100};
    first_value.element = testing::ElementUnderTest();
    Ids keys;
    Ids row_ids;
    Floats expected(kCount * 3, 5.0f);
    for (int64_t i = 0; i < kCount; ++i) {
      keys.push_back(i * i);
      row_ids.push_back(i % 3 == 0 ? 8 : kNoRow);
      if (i % 3 != 0) WriteFirstValue(first_value, keys.back(), 3, expected.data() + i * 3);
    }
    CallWithArrays arrays(engine);
    float* out = arrays.Upload(Floats(kCount * 3, 5.0f));
    engine.engine.FillAbsentRows(arrays.call(), kCount, 3, first_value, arrays.Upload(keys),
                                 arrays.Upload(row_ids), out);
    CHECK_TRUE(arrays.Download(out, kCount * 3) == expected);
  });
}

SOK_TEST(RepeatedRowsAddUpAndTheLastAssignedStays) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const int64_t dim : {1, 4}) {
      Ids row_ids;
      Floats values;
      Floats sums(static_cast<size_t>(10 * dim), 1.0f);
      Floats last = sums;
      for (int64_t i = 0; i < 3000; ++i) {
        row_ids.push_back(i * i % 7);
        for (int64_t c = 0; c < dim; ++c) {
          values.push_back(static_cast<float>(i % 5) + 0.5f);  // sums of these are exact
          sums[static_cast<size_t>(row_ids.back() * dim + c)] += values.back();
          last[static_cast<size_t>(row_ids.back() * dim + c)] = values.back();
        }
      }
      CallWithArrays arrays(engine);
      const int64_t* ids = arrays.Upload(row_ids);
      const float* given = arrays.Upload(values);
      const Floats ones(static_cast<size_t>(10 * dim), 1.0f);
      RowsView plane = arrays.UploadRows(ones, dim);
      if (plane.element == Element::kFloat32) {
        engine.engine.AddToRows(arrays.call(), 0, ids, given, plane);
        engine.engine.AddToRows(arrays.call(), 3000, ids, given, plane);
        CHECK_TRUE(arrays.DownloadRows(plane, 10) == sums);
      } else {
        CHECK_THROWS(ErrorCode::kInvalidArgument, {"rows must be float32"},
                     engine.engine.AddToRows(arrays.call(), 3000, ids, given, plane));
      }
      plane = arrays.UploadRows(ones, dim);
      engine.engine.AssignRows(arrays.call(), 0, ids, given, plane);
      engine.engine.AssignRows(arrays.call(), 3000, ids, given, plane);
      CHECK_TRUE(arrays.DownloadRows(plane, 10) == last);
    }
  });
}

/// All engines give the same checksums for rows of any width, also for a part of a plane.
SOK_TEST(SumsTellRowsThatDiffer) {
  constexpr int64_t kRows = 50;
  for (const int64_t width : {1, 2, 7, 8, 16, 19, 32}) {
    const Floats rows = Random(kRows * width, static_cast<uint32_t>(width));
    std::vector<uint64_t> before(kRows), expected(kRows);
    for (size_t i = 0; i < kRows; ++i) before[i] = i % 3;
    OnAllEngines([&](const TestedEngine& engine) {
      CallWithArrays host({"CPU", CpuEngine(), SerialExecutor()});
      WithElement(host.UploadRows(rows, width), [&](const auto* on_host) {
        for (size_t i = 0; i < kRows; ++i) {
          expected[i] = RowSum(before[i], on_host + i * static_cast<size_t>(width), width);
        }
      });
      if (width > 1 || testing::ElementUnderTest() == Element::kFloat32) {
        CHECK_EQ(std::unordered_set<uint64_t>(expected.begin(), expected.end()).size(),
                 size_t{kRows});
      }
      CallWithArrays arrays(engine);
      const RowsView plane = arrays.UploadRows(rows, width);
      auto* sums = arrays.Upload(before);
      engine.engine.SumRows(arrays.call(), 0, kRows, plane, sums);
      CHECK_TRUE(arrays.Download(sums, kRows) == expected);
      auto* of_some = arrays.Upload(std::vector<uint64_t>(before.begin() + 5, before.begin() + 9));
      engine.engine.SumRows(arrays.call(), 5, 4, plane, of_some);
      CHECK_TRUE(arrays.Download(of_some, 4) ==
                 std::vector<uint64_t>(expected.begin() + 5, expected.begin() + 9));
    });
  }
}

SOK_TEST(EachColumnCounts) {
  for (const int64_t width : {1, 2, 5, 16, 33}) {
    Floats row(static_cast<size_t>(width), 0.0f);
    std::unordered_set<uint64_t> sums{RowSum(0, row.data(), width)};
    for (float& column : row) {
      column = -0.0f;  // only the bits differ
      sums.insert(RowSum(0, row.data(), width));
      column = 0.0f;
    }
    CHECK_EQ(sums.size(), row.size() + 1);
  }
}

SOK_TEST(CopiesAndFills) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const int64_t count : {0, 1, 5, 10'001}) {
      CallWithArrays arrays(engine);
      const Floats values = Random(count, 5);
      const float* from = arrays.Upload(values);
      auto* to = arrays.Empty<float>(count);
      engine.engine.CopyOnDevice(arrays.call(), to, from, count * 4);
      CHECK_TRUE(arrays.Download(to, count) == values);
      engine.engine.Fill(arrays.call(), to, count, -2.5f);
      CHECK_TRUE(arrays.Download(to, count) == Floats(static_cast<size_t>(count), -2.5f));
    }
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
