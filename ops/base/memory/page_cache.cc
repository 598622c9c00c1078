// SPDX-License-Identifier: Apache-2.0
#include "ops/base/memory/page_cache.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ops/base/error.h"
#include "ops/base/local_files.h"

namespace sok {
namespace {

constexpr uint8_t kMostUses = 7;
constexpr int64_t kRefreshPages = 4096;  // some 0.3 ms
constexpr int64_t kAheadShare = 64;      // pages leave in groups of this part of the limit

void CheckFolder(const std::string& folder, int64_t most_bytes) {
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0) {
    if (errno == ENOENT) {
      Throw(ErrorCode::kNotFound, "the storage path '", folder,
            "' does not exist; create the folder, on a disk");
    }
    ThrowOfSystem(folder, errno);
  }
  if (!S_ISDIR(status.st_mode)) {
    Throw(ErrorCode::kInvalidArgument, "the storage path '", folder, "' is no folder");
  }
  struct statfs system = {};
  if (statfs(folder.c_str(), &system) != 0) ThrowOfSystem(folder, errno);
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC) {
    Throw(ErrorCode::kInvalidArgument, "the storage path '", folder,
          "' is on tmpfs, which is memory; name a folder on a disk");
  }
  const auto free_bytes = static_cast<int64_t>(system.f_bavail) * system.f_frsize;
  if (free_bytes < most_bytes) {
    Throw(ErrorCode::kNoSpace, "the storage path '", folder, "' has ", free_bytes,
          " bytes free, fewer than the ", most_bytes,
          " bytes that rows may take in memory; name a folder on a larger disk");
  }
}

uint8_t Load(const uint8_t* uses) { return __atomic_load_n(uses, __ATOMIC_RELAXED); }
void Store(uint8_t* uses, uint8_t value) { __atomic_store_n(uses, value, __ATOMIC_RELAXED); }
uint8_t Exchange(uint8_t* uses, uint8_t value) {
  return __atomic_exchange_n(uses, value, __ATOMIC_RELAXED);
}

/// Counts a use; returns false, and counts none, if the page is not in memory. A sweep meanwhile
/// must not be undone: num_resident_ would be wrong for ever.
bool CountUse(uint8_t* uses) {
  uint8_t count = Load(uses);
  while (count != 0 && count < kMostUses) {
    const auto next = static_cast<uint8_t>(count + 1);
    if (__atomic_compare_exchange_n(uses, &count, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return true;
    }
  }
  return count != 0;
}

void MakeDistinct(std::vector<int64_t>* pages) {
  std::sort(pages->begin(), pages->end());
  pages->erase(std::unique(pages->begin(), pages->end()), pages->end());
}

/// Ascending pages as ranges.
std::vector<PageRange> RangesOf(const std::vector<int64_t>& pages) {
  std::vector<PageRange> ranges;
  for (const int64_t page : pages) {
    if (ranges.empty() || ranges.back().first + ranges.back().count != page) {
      ranges.push_back({page, 0});
    }
    ++ranges.back().count;
  }
  return ranges;
}

}  // namespace

PageCache::PageCache(std::string folder, int64_t most_bytes)
    : folder_(std::move(folder)),
      most_bytes_(most_bytes),
      most_pages_(std::max<int64_t>(1, most_bytes / static_cast<int64_t>(PageBytes()))) {
  CheckFolder(folder_, most_bytes);
}

PageCacheStatistics PageCache::Statistics() {
  const auto page_bytes = static_cast<int64_t>(PageBytes());
  PageCacheStatistics statistics;
  statistics.resident_bytes = num_resident_ * page_bytes;
  statistics.rows_requested = num_requested_;
  statistics.rows_missed = num_missed_;
  statistics.bytes_read = num_read_ * page_bytes;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const CachedFile* file : files_) {
    statistics.allocated_bytes += static_cast<int64_t>(file->memory_.allocated_bytes());
  }
  return statistics;
}

/// Drops pages until `num_pages` more fit below the limit; returns whether it did.
bool PageCache::MakeRoom(int64_t num_pages) {
  if (num_resident_ + num_pages <= most_pages_) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t excess = num_resident_ + num_pages - most_pages_;
  if (excess <= 0) return false;
  excess = std::min<int64_t>(std::max(excess, most_pages_ / kAheadShare), num_resident_);
  // A round of all files lowers each count by 1.
  for (size_t left = kMostUses * files_.size(); left > 0 && excess > 0; --left) {
    hand_ %= files_.size();
    excess -= files_[hand_]->Sweep(excess);
    if (excess > 0) ++hand_;
  }
  return true;
}

CachedFile::CachedFile(std::shared_ptr<PageCache> cache, size_t size_bytes)
    : cache_(std::move(cache)),
      memory_(cache_->folder(), size_bytes),
      uses_(memory_.size_bytes() / PageBytes(), PageSize::kSmall) {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  cache_->files_.push_back(this);
}

CachedFile::~CachedFile() {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  cache_->files_.erase(std::find(cache_->files_.begin(), cache_->files_.end(), this));
  for (int64_t page = 0; page < num_pages_; ++page) cache_->num_resident_ -= Uses()[page] != 0;
}

void CachedFile::Grow(size_t size_bytes) {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  uses_.Grow((size_bytes + PageBytes() - 1) / PageBytes());
  memory_.Grow(size_bytes);
}

void CachedFile::Allocate(size_t end_bytes) {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  memory_.Allocate(end_bytes);
}

void CachedFile::Release() {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  for (int64_t page = 0; page < num_pages_; ++page) {
    cache_->num_resident_ -= Exchange(Uses() + page, 0) != 0;
  }
  memory_.Release();
  num_pages_ = 0;
  hand_ = 0;
  refreshed_ = 0;
}

template <typename RowId>
void CachedFile::FetchAll(const void* rows, int64_t row_bytes, int64_t num_rows,
                          const RowId& row_id) {
  const auto page_bytes = static_cast<int64_t>(PageBytes());
  int64_t begin = static_cast<const char*>(rows) - static_cast<const char*>(data());
  begin -= begin % row_bytes;  // whole rows, whatever their first column is
  uint8_t* const uses = Uses();
  memory_.CheckWrites();
  std::vector<int64_t> missing;
  const auto add_missing = [&](int64_t row, const auto& is_in_memory) {
    const int64_t offset = begin + row * row_bytes;
    const size_t num_before = missing.size();
    for (int64_t page = offset / page_bytes; page * page_bytes < offset + row_bytes; ++page) {
      if (!is_in_memory(uses + page)) missing.push_back(page);
    }
    return missing.size() > num_before;
  };
  int64_t num_missed = 0;
  for (int64_t i = 0; i < num_rows; ++i) {
    if (row_id(i) >= 0) num_missed += add_missing(row_id(i), CountUse);
  }
  cache_->num_requested_ += num_rows;
  MakeDistinct(&missing);
  // Also for what earlier batches needed beyond the limit. It may drop pages of this batch.
  if (cache_->MakeRoom(static_cast<int64_t>(missing.size()))) {
    for (int64_t i = 0; i < num_rows; ++i) {
      if (row_id(i) >= 0) add_missing(row_id(i), [](uint8_t* page) { return Load(page) != 0; });
    }
    MakeDistinct(&missing);
  }
  if (missing.empty()) return;
  cache_->num_missed_ += num_missed;
  cache_->num_read_ += static_cast<int64_t>(missing.size());
  for (int64_t num_pages = num_pages_; num_pages <= missing.back();) {
    num_pages_.compare_exchange_weak(num_pages, missing.back() + 1);
  }
  memory_.Read(RangesOf(missing));
  for (const int64_t page : missing) {
    cache_->num_resident_ += Exchange(uses + page, 1) == 0;
  }
  Refresh();
}

void CachedFile::Fetch(const void* rows, int64_t row_bytes, int64_t num_rows,
                       const int64_t* row_ids) {
  FetchAll(rows, row_bytes, num_rows, [=](int64_t i) { return row_ids[i]; });
}

void CachedFile::FetchFirst(const void* rows, int64_t row_bytes, int64_t num_rows) {
  FetchAll(rows, row_bytes, num_rows, [](int64_t i) { return i; });
}

bool CachedFile::IsResident(const void* begin, int64_t bytes) const {
  const auto page_bytes = static_cast<int64_t>(PageBytes());
  const int64_t offset = static_cast<const char*>(begin) - static_cast<const char*>(data());
  const int64_t first = offset / page_bytes;
  const int64_t count = (offset + bytes - 1) / page_bytes + 1 - first;
  std::vector<unsigned char> resident(static_cast<size_t>(count));
  memory_.GetResident({first, count}, resident.data());
  return std::all_of(resident.begin(), resident.end(),
                     [](unsigned char page) { return (page & 1) != 0; });
}

/// Moves the hand until `wanted` pages are dropped, or to the end of the file, and returns how many
/// were. Pages between two dropped ones that are not in memory are part of the same range.
int64_t CachedFile::Sweep(int64_t wanted) {
  std::vector<PageRange> dropped;
  int64_t num_dropped = 0;
  bool is_range_open = false;
  const int64_t num_pages = num_pages_;
  for (; hand_ < num_pages && num_dropped < wanted; ++hand_) {
    const uint8_t count = Load(Uses() + hand_);
    if (count == 0) continue;
    if (count > 1) {
      Store(Uses() + hand_, static_cast<uint8_t>(count - 1));
      is_range_open = false;
      continue;
    }
    num_dropped += Exchange(Uses() + hand_, 0) != 0;
    if (!is_range_open) dropped.push_back({hand_, 0});
    dropped.back().count = hand_ + 1 - dropped.back().first;
    is_range_open = true;
  }
  if (hand_ >= num_pages) hand_ = 0;
  cache_->num_resident_ -= num_dropped;
  memory_.Drop(dropped);
  return num_dropped;
}

/// Asks the system about the next pages: it may have dropped some, and others were read by code
/// that knows nothing of this cache.
void CachedFile::Refresh() {
  const std::unique_lock<std::mutex> lock(cache_->mutex_, std::try_to_lock);
  if (!lock) return;
  if (refreshed_ >= num_pages_) refreshed_ = 0;
  const PageRange slice{refreshed_, std::min<int64_t>(kRefreshPages, num_pages_ - refreshed_)};
  if (slice.count <= 0) return;
  std::vector<unsigned char> resident(static_cast<size_t>(slice.count));
  memory_.GetResident(slice, resident.data());
  for (int64_t i = 0; i < slice.count; ++i) {
    uint8_t* const uses = Uses() + slice.first + i;
    const bool is_resident = (resident[static_cast<size_t>(i)] & 1) != 0;
    if (is_resident == (Load(uses) != 0)) continue;
    const bool was_resident = Exchange(uses, is_resident ? 1 : 0) != 0;
    cache_->num_resident_ += int64_t{is_resident} - int64_t{was_resident};
  }
  refreshed_ += slice.count;
}

}  // namespace sok
