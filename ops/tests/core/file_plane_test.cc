// SPDX-License-Identifier: Apache-2.0
// Planes in files: the limit of memory, which pages stay, and refusals of the disk.
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "ops/cpu/cpu_engine.h"
#include "ops/engine/engine.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

using Words = std::vector<std::string>;
using Ids = std::vector<int64_t>;

int64_t PageFloats() { return static_cast<int64_t>(PageBytes() / sizeof(float)); }

/// A plane with a row on each page, in a cache of `most_pages`.
struct Rows {
  explicit Rows(int64_t most_pages, int64_t capacity = 1000)
      : cache(std::make_shared<PageCache>(".", most_pages * static_cast<int64_t>(PageBytes()))) {
    PlaneOptions options{capacity, PageFloats()};
    options.storage = cache;
    plane = CpuEngine().MakePlane(options);
    plane->Reserve(10);
    plane->ExpectRows(10);
  }

  void Write(const Ids& row_ids, float value) const {
    const std::vector<float> rows(row_ids.size() * static_cast<size_t>(PageFloats()), value);
    CpuEngine().ScatterRows(*call, Count(row_ids), row_ids.data(), rows.data(), plane->data());
  }
  std::vector<float> Read(const Ids& row_ids) const {
    std::vector<float> rows(row_ids.size() * static_cast<size_t>(PageFloats()));
    CpuEngine().GatherRows(*call, Count(row_ids), row_ids.data(), plane->data(), rows.data());
    std::vector<float> firsts;
    for (size_t i = 0; i < row_ids.size(); ++i) {
      firsts.push_back(rows[i * static_cast<size_t>(PageFloats())]);
    }
    return firsts;
  }
  /// As a lookup, of rows that will be updated together with those of `slot`.
  void LookUp(const Ids& row_ids, Plane* slot = nullptr) const {
    const int64_t count = Count(row_ids);
    std::vector<int32_t> inverse(row_ids.size());
    std::vector<int64_t> splits(row_ids.size() + 1);
    std::iota(inverse.begin(), inverse.end(), 0);
    std::iota(splits.begin(), splits.end(), int64_t{0});
    Bags bags;
    bags.num_bags = bags.num_keys = bags.num_distinct = count;
    bags.inverse = inverse.data();
    bags.row_splits = splits.data();
    std::vector<float> out(row_ids.size() * static_cast<size_t>(PageFloats()));
    Planes planes;
    if (slot != nullptr) planes.slots = {{slot, 0.0f}};
    CpuEngine().PoolRows(*call, bags, {plane->data(), row_ids.data(), nullptr, &planes},
                         out.data());
  }
  bool IsResident(int64_t row_id) const {
    const RowsView row = plane->data().From(row_id);
    return row.file->IsResident(row.data, row.row_bytes());
  }
  static int64_t Count(const Ids& row_ids) { return static_cast<int64_t>(row_ids.size()); }

  std::shared_ptr<PageCache> cache;
  std::shared_ptr<Plane> plane;
  std::unique_ptr<Call> call = CpuEngine().MakeCall(SerialExecutor(), nullptr);
};

SOK_TEST(PagesUsedOnceLeaveBeforeThoseUsedOften) {
  const Rows rows(4);
  for (const Ids& batch : {Ids{1, 2, 3}, Ids{1, 2, 4}, Ids{1, 2, 2}, Ids{1, 2, 5}}) {
    rows.Write(batch, static_cast<float>(batch[2]));
  }
  for (const int64_t row : {1, 2, 4, 5}) CHECK_TRUE(rows.IsResident(row));
  CHECK_TRUE(!rows.IsResident(3));
  CHECK_TRUE(rows.Read({3, 1, 4, 5, 6}) == (std::vector<float>{3, 5, 4, 5, 0}));
  CHECK_TRUE(rows.IsResident(3));
}

SOK_TEST(UsesBeforeAPageLeftCount) {
  const Rows rows(2);
  for (int i = 0; i < 4; ++i) rows.Write({1}, 1.0f);
  rows.Write({2, 3, 4}, 1.0f);
  rows.Write({5, 6}, 1.0f);
  CHECK_TRUE(!rows.IsResident(1));
  for (const int64_t row : {1, 2, 3, 4, 5, 6}) rows.Write({row}, 2.0f);
  CHECK_TRUE(rows.IsResident(1));
}

SOK_TEST(PagesThatAreUsedNoMoreLeave) {
  const Rows rows(3);
  for (int i = 0; i < 100; ++i) rows.Write({1, 2}, 1.0f);
  for (int i = 0; i < 50; ++i) rows.Write({3 + i % 2}, 2.0f);
  CHECK_TRUE(rows.IsResident(3) && rows.IsResident(4));
}

SOK_TEST(PagesOfABatchStayWhileItRuns) {
  const Rows rows(4);
  rows.Write({0, 1, 2}, 1.0f);
  rows.Write({0, 1, 2, 3, 4, 5}, 2.0f);  // more than the limit
  CHECK_EQ(rows.cache->Statistics().bytes_written, 0);
  rows.LookUp({0, 1, 2, 3, 4, 5});
  CHECK_EQ(rows.cache->Statistics().rows_missed, 0);
}

SOK_TEST(ALookupOfRowsThatWillBeUpdatedBringsSlots) {
  const Rows rows(4);
  PlaneOptions options{1000, PageFloats()};
  options.storage = rows.cache;
  const auto slot = CpuEngine().MakePlane(options);
  rows.LookUp({1, 2}, slot.get());
  CHECK_EQ(rows.cache->Statistics().resident_bytes, 4 * static_cast<int64_t>(PageBytes()));
  CHECK_EQ(rows.cache->Statistics().rows_requested, 2);
  CHECK_EQ(rows.cache->Statistics().rows_missed, 2);
}

SOK_TEST(TheLimitHoldsBetweenBatches) {
  const Rows rows(4);
  const Ids all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  rows.Write(all, 1.0f);  // more than the limit
  rows.Write({0}, 2.0f);
  rows.Write({9}, 3.0f);
  int64_t num_resident = 0;
  for (const int64_t row : all) num_resident += rows.IsResident(row);
  CHECK_TRUE(num_resident <= 4);
  const PageCacheStatistics statistics = rows.cache->Statistics();
  CHECK_EQ(statistics.resident_bytes, num_resident * static_cast<int64_t>(PageBytes()));
  CHECK_TRUE(statistics.allocated_bytes >= 10 * static_cast<int64_t>(PageBytes()));
  CHECK_TRUE(rows.Read(all) == (std::vector<float>{2, 1, 1, 1, 1, 1, 1, 1, 1, 3}));
}

SOK_TEST(LookupsAreCountedAndNewPagesAreNotRead) {
  const Rows rows(4);
  rows.Write({0, 1, 2, 3, 4, 5}, 1.0f);
  rows.Write({6}, 1.0f);  // the others leave, those with one use first
  CHECK_EQ(rows.cache->Statistics().bytes_read, 0);
  CHECK_EQ(rows.cache->Statistics().rows_requested, 0);
  const int64_t num_resident = rows.cache->Statistics().resident_bytes / PageBytes();
  const int64_t num_written = rows.cache->Statistics().bytes_written / PageBytes();
  CHECK_EQ(num_resident + num_written, 7);
  rows.LookUp({0, 6});
  rows.Write({0, 6}, 2.0f);  // the update of the same step
  const PageCacheStatistics statistics = rows.cache->Statistics();
  CHECK_EQ(statistics.rows_requested, 2);
  CHECK_EQ(statistics.rows_missed, 1);
  CHECK_EQ(statistics.bytes_read, static_cast<int64_t>(PageBytes()));
}

SOK_TEST(PagesAreCountedOnceTheyDoNotFit) {
  const auto page_bytes = static_cast<int64_t>(PageBytes());
  const Rows rows(12);
  const Ids old = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  rows.Write(old, 1.0f);
  rows.LookUp({0, 1});
  PageCacheStatistics statistics = rows.cache->Statistics();
  CHECK_EQ(statistics.resident_bytes, 10 * page_bytes);
  CHECK_EQ(statistics.rows_requested, 2);
  CHECK_EQ(statistics.rows_missed, 0);
  rows.plane->ExpectRows(20);
  rows.Write({10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, 2.0f);
  statistics = rows.cache->Statistics();
  CHECK_EQ(statistics.resident_bytes, 12 * page_bytes);
  CHECK_EQ(statistics.bytes_written, 8 * page_bytes);
  CHECK_TRUE(rows.Read(old) == std::vector<float>(10, 1.0f));
  CHECK_EQ(rows.cache->Statistics().bytes_read, 8 * page_bytes);
}

SOK_TEST(PlanesOfATableShareTheLimit) {
  const Rows rows(2);
  PlaneOptions options{1000, PageFloats()};
  options.storage = rows.cache;
  const auto other = CpuEngine().MakePlane(options);
  rows.Write({1, 2}, 1.0f);
  const Ids row_ids = {1, 2};
  std::vector<float> out(2 * static_cast<size_t>(PageFloats()));
  CpuEngine().GatherRows(*rows.call, 2, row_ids.data(), other->data(), out.data());
  CHECK_TRUE(!rows.IsResident(1) && !rows.IsResident(2));
  CHECK_EQ(rows.cache->Statistics().resident_bytes, 2 * static_cast<int64_t>(PageBytes()));
}

SOK_TEST(AFullDiskLeavesThePlaneAsItWas) {
  const Rows rows(4, int64_t{1} << 30);  // 4 TiB
  rows.Write({1}, 1.0f);
  const int64_t allocated_bytes = rows.cache->Statistics().allocated_bytes;
  CHECK_THROWS(ErrorCode::kNoSpace, (Words{"refused", "Free space"}),
               rows.plane->ExpectRows(int64_t{1} << 30));
  CHECK_EQ(rows.cache->Statistics().allocated_bytes, allocated_bytes);
  CHECK_TRUE(rows.Read({1, 2}) == (std::vector<float>{1, 0}));
}

SOK_TEST(APlaneThatGrowsHasBlocksForAllItsRows) {
  const Rows rows(4);
  PlaneOptions options{kMaxRows, PageFloats()};
  options.storage = std::make_shared<PageCache>(".", 1 << 20);
  const auto plane = CpuEngine().MakePlane(options);
  const auto check = [&] {
    const int64_t row_bytes = plane->data().row_bytes();
    CHECK_EQ(options.storage->Statistics().allocated_bytes, plane->num_rows() * row_bytes);
  };
  check();
  plane->Reserve(plane->num_rows() + 1);
  check();
  const int64_t num_rows = plane->num_rows();
  CHECK_THROWS(ErrorCode::kNoSpace, (Words{"refused", "Free space"}),
               plane->Reserve(int64_t{1} << 30));
  CHECK_EQ(plane->num_rows(), num_rows);
  check();
}

SOK_TEST(FoldersThatCannotBeAreRefused) {
  const auto check = [](const std::string& folder, ErrorCode code, const Words& words) {
    CHECK_THROWS(code, words, PageCache(folder, 1));
  };
  check("no_such_folder", ErrorCode::kNotFound, {"'no_such_folder'", "does not exist"});
  check("/proc/self/status", ErrorCode::kInvalidArgument, {"is no folder"});
  if (std::filesystem::exists("/dev/shm")) {
    check("/dev/shm", ErrorCode::kInvalidArgument, {"tmpfs, which is memory"});
  }
  CHECK_THROWS(ErrorCode::kNoSpace, (Words{"bytes free", "larger disk"}),
               PageCache(".", int64_t{1} << 60));
}

SOK_TEST(NoFolderListsTheFiles) {
  char folder[] = "file_plane_test_XXXXXX";
  CHECK_TRUE(mkdtemp(folder) != nullptr);
  {
    PlaneOptions options{kMaxRows, 8};
    options.storage = std::make_shared<PageCache>(folder, 1 << 20);
    const auto plane = CpuEngine().MakePlane(options);
    plane->Reserve(1'000'000);
    CHECK_TRUE(std::filesystem::is_empty(folder));
  }
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
