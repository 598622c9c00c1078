// SPDX-License-Identifier: Apache-2.0
// Rows by row id on a queue: gathered, scattered, and first values where there is no row.
#include "ops/device/row_kernels.h"
#include "ops/tests/device_lookup_fixture.h"

namespace sok {
namespace {

using testing::DeviceArray;
using testing::Fixture;
using testing::Floats;
using testing::Ids;
using testing::Random;
using testing::Size;
using testing::TestQueue;

constexpr int64_t kNumRows = 500;
const Ids kRowIds = {7, kNoRow, 0, 499, 3, kNoRow, 250, 1};
// On the device there is one row fewer than the host knows: the last place stays as it is.
const std::vector<int32_t> kCount = {7};

/// A plane, rows for some of it, and their row ids; all by dims with and without packs of four.
struct Rows {
  explicit Rows(int64_t row_dim)
      : dim(row_dim),
        plane(Random(kNumRows * dim, 1)),
        values(Random(Size(kRowIds) * dim, 2)),
        device_plane(fixture.queue, plane),
        device_values(fixture.queue, values),
        row_ids(fixture.queue, kRowIds),
        exact(fixture.queue, kCount) {}

  Count count() const { return {Size(kRowIds), exact.data()}; }
  /// Calls visit(value in the plane, value in `values`) for all columns of places with a row.
  template <typename Visit>
  void ForHeldPlaces(const Visit& visit) {
    for (int64_t i = 0; i < kCount[0] * dim; ++i) {
      const int64_t row = kRowIds[static_cast<size_t>(i / dim)];
      if (row >= 0) visit(plane[static_cast<size_t>(row * dim + i % dim)], values[i]);
    }
  }

  Fixture fixture;
  int64_t dim;
  Floats plane;
  Floats values;
  DeviceArray<float> device_plane;
  DeviceArray<float> device_values;
  DeviceArray<int64_t> row_ids;
  DeviceArray<int32_t> exact;
};

SOK_TEST(GatherCopiesHeldRows) {
  for (const int64_t dim : {1, 6, 16}) {
    Rows rows(dim);
    {
      const QueueCall<TestQueue> call(rows.fixture.queue, {});
      GatherRows(rows.fixture.queue, rows.count(), dim, rows.row_ids.data(),
                 rows.device_plane.data(), rows.device_values.data());
    }
    rows.ForHeldPlaces([](float in_plane, float& value) { value = in_plane; });
    CHECK_TRUE(rows.device_values.ToHost() == rows.values);
  }
}

SOK_TEST(ScatterReplacesHeldRows) {
  for (const int64_t dim : {1, 6, 16}) {
    Rows rows(dim);
    {
      const QueueCall<TestQueue> call(rows.fixture.queue, {});
      ScatterRows(rows.fixture.queue, rows.count(), dim, rows.row_ids.data(),
                  rows.device_values.data(), rows.device_plane.data());
    }
    rows.ForHeldPlaces([](float& in_plane, float value) { in_plane = value; });
    CHECK_TRUE(rows.device_plane.ToHost() == rows.plane);
  }
}

SOK_TEST(AbsentRowsGetTheirFirstValues) {
  const FirstValue first_value{FirstValue::Kind::kUniform, 1.0f, 2.0f, FirstValueStream(3, "t")};
  for (const int64_t dim : {1, 6, 16}) {
    Rows rows(dim);
    Ids keys;
    for (int64_t i = 0; i < Size(kRowIds); ++i) keys.push_back(i * 1'000'003);
    const DeviceArray<int64_t> device_keys(rows.fixture.queue, keys);
    for (const auto kind : {FirstValue::Kind::kPreset, FirstValue::Kind::kUniform}) {
      FirstValue of_kind = first_value;
      of_kind.kind = kind;
      {
        const QueueCall<TestQueue> call(rows.fixture.queue, {});
        FillAbsentRows(rows.fixture.queue, rows.count(), dim, of_kind, device_keys.data(),
                       rows.row_ids.data(), rows.device_values.data());
      }
      for (int64_t i = 0; i < kCount[0] && kind == FirstValue::Kind::kUniform; ++i) {
        if (kRowIds[static_cast<size_t>(i)] >= 0) continue;
        WriteFirstValue(first_value, keys[static_cast<size_t>(i)], dim,
                        rows.values.data() + i * dim);
      }
      CHECK_TRUE(rows.device_values.ToHost() == rows.values);
    }
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
