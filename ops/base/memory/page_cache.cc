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

// The byte of a page: its uses, and flags.
constexpr uint8_t kUses = 15;  // as many are counted
constexpr uint8_t kInMemory = 16;
constexpr uint8_t kChanged = 32;  // since it was read

// Simulated with keys drawn by a power law, their ranks fixed, drifting or exchanged at once: 16
// and 31 uses read 1 % fewer pages, 4 and 15 read 3 % more.
constexpr int kSeldomEnds = 8;
constexpr int kMostRounds = 3 * kSeldomEnds;  // after which all counts are below

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

uint8_t Load(const uint8_t* page) { return __atomic_load_n(page, __ATOMIC_RELAXED); }
/// Replaces the state of a page by change(state), and returns the one before. What others change
/// meanwhile must not be undone: num_resident_ would be wrong for ever.
template <typename Change>
uint8_t Replace(uint8_t* page, const Change& change) {
  uint8_t state = Load(page);
  for (;;) {
    const auto next = static_cast<uint8_t>(change(state));
    if (next == state ||
        __atomic_compare_exchange_n(page, &state, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return state;
    }
  }
}
bool IsInMemory(uint8_t state) { return (state & kInMemory) != 0; }
int NumUses(uint8_t state) { return state & kUses; }
int Halved(int uses) { return (uses + 1) / 2; }

/// One more, if `use` counts.
int CountedUse(uint8_t state, RowUse use) {
  return state + (use != RowUse::kUpdate && NumUses(state) < kUses);
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

/// The pages that a batch uses. They are not dropped while this lives.
class PagesInUse {
 public:
  PagesInUse(PageCache* cache, RowUse use)
      : number_(static_cast<uint8_t>(1 + cache->last_batch_++ % PageCache::kMostBatch)),
        running_(&cache->running_[number_]),
        use_(use),
        flags_(use == RowUse::kWrite || use == RowUse::kUpdate ? kChanged : 0) {
    ++*running_;
  }
  PagesInUse(const PagesInUse&) = delete;
  PagesInUse& operator=(const PagesInUse&) = delete;
  ~PagesInUse() { --*running_; }

  /// Returns whether the page is in memory. One that is not counts when it enters.
  bool Use(uint8_t* page, uint8_t* batch) {
    if (Load(batch) == number_) return IsInMemory(Load(page));
    __atomic_store_n(batch, number_, __ATOMIC_RELAXED);
    ++size_;
    return IsInMemory(Replace(page, [this](uint8_t state) {
      return (IsInMemory(state) ? CountedUse(state, use_) : state) | flags_;
    }));
  }
  int64_t size() const { return size_; }

 private:
  const uint8_t number_;
  std::atomic<int64_t>* const running_;
  const RowUse use_;
  const int flags_;
  int64_t size_ = 0;
};

PageCacheStatistics PageCache::Statistics() {
  const auto page_bytes = static_cast<int64_t>(PageBytes());
  PageCacheStatistics statistics;
  statistics.rows_requested = num_requested_;
  statistics.rows_missed = num_missed_;
  statistics.bytes_read = num_read_ * page_bytes;
  statistics.bytes_written = num_written_ * page_bytes;
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics.allocated_bytes = AllocatedBytes();
  statistics.resident_bytes = counts_ ? num_resident_ * page_bytes : statistics.allocated_bytes;
  return statistics;
}

int64_t PageCache::AllocatedBytes() const {
  int64_t bytes = 0;
  for (const CachedFile* file : files_) {
    bytes += static_cast<int64_t>(file->memory_.allocated_bytes());
  }
  return bytes;
}

/// Begins to count when files have more pages than fit.
void PageCache::CountIfTooMany() {
  if (counts_ || AllocatedBytes() <= most_pages_ * static_cast<int64_t>(PageBytes())) return;
  for (CachedFile* file : files_) file->FindResident();
  counts_ = true;
}

/// Drops pages until `num_pages` more fit below the limit, or only the `num_in_use` are left.
void PageCache::MakeRoom(int64_t num_pages, int64_t num_in_use) {
  if (num_resident_ + num_pages <= most_pages_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t excess = num_resident_ + num_pages - most_pages_;
  if (excess <= 0) return;
  excess =
      std::min<int64_t>(std::max(excess, most_pages_ / kAheadShare), num_resident_ - num_in_use);
  size_t num_left = files_.size() + 1;  // the first is swept from the hand on
  for (int rounds = 0; excess > 0 && rounds < kMostRounds;) {
    hand_ %= files_.size();
    excess -= files_[hand_]->Sweep(excess);
    if (excess <= 0) return;
    ++hand_;
    if (--num_left > 0) continue;
    RaiseSeldom();
    ++rounds;
    num_left = files_.size();
  }
}

void PageCache::RaiseSeldom() {
  if (++seldom_ < kSeldomEnds) return;
  seldom_ = Halved(seldom_);
  for (const CachedFile* file : files_) {
    for (int64_t page = 0; page < file->num_pages_; ++page) {
      Replace(file->States() + page,
              [](uint8_t state) { return (state & ~kUses) | Halved(NumUses(state)); });
    }
  }
}

CachedFile::CachedFile(std::shared_ptr<PageCache> cache, size_t size_bytes)
    : cache_(std::move(cache)),
      memory_(cache_->folder(), size_bytes),
      states_(memory_.size_bytes() / PageBytes(), PageSize::kSmall),
      batches_(memory_.size_bytes() / PageBytes(), PageSize::kSmall) {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  cache_->files_.push_back(this);
}

CachedFile::~CachedFile() {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  cache_->files_.erase(std::find(cache_->files_.begin(), cache_->files_.end(), this));
  for (int64_t page = 0; page < num_pages_; ++page) {
    cache_->num_resident_ -= IsInMemory(States()[page]);
  }
}

void CachedFile::Grow(size_t size_bytes) {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  const size_t num_pages = (size_bytes + PageBytes() - 1) / PageBytes();
  states_.Grow(num_pages);
  batches_.Grow(num_pages);
  memory_.Grow(size_bytes);
}

void CachedFile::Allocate(size_t end_bytes) {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  memory_.Allocate(end_bytes);
  cache_->CountIfTooMany();
}

void CachedFile::Release() {
  const std::lock_guard<std::mutex> lock(cache_->mutex_);
  for (int64_t page = 0; page < num_pages_; ++page) {
    cache_->num_resident_ -= IsInMemory(Replace(States() + page, [](uint8_t) { return 0; }));
  }
  memory_.Release();
  num_pages_ = 0;
  hand_ = 0;
  refreshed_ = 0;
}

/// Adds the pages of rows that are not in memory, ascending, and returns of how many rows.
template <typename Use>
int64_t CachedFile::AddMissing(const RowsInFile& plane, int64_t num_rows, const int64_t* row_ids,
                               const Use& use, std::vector<int64_t>* missing) const {
  const auto page_bytes = static_cast<int64_t>(PageBytes());
  int64_t begin = static_cast<const char*>(plane.rows) - static_cast<const char*>(data());
  begin -= begin % plane.row_bytes;  // whole rows, whatever their first column is
  int64_t num_missed = 0;
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t row = row_ids == nullptr ? i : row_ids[i];
    if (row < 0) continue;
    const int64_t offset = begin + row * plane.row_bytes;
    const size_t num_before = missing->size();
    for (int64_t page = offset / page_bytes; page * page_bytes < offset + plane.row_bytes; ++page) {
      if (!use(States() + page, Batches() + page)) missing->push_back(page);
    }
    num_missed += missing->size() > num_before;
  }
  MakeDistinct(missing);
  return num_missed;
}

/// Notes that ascending pages are in memory.
void CachedFile::Enter(const std::vector<int64_t>& pages, RowUse use) {
  for (int64_t num_pages = num_pages_; num_pages <= pages.back();) {
    num_pages_.compare_exchange_weak(num_pages, pages.back() + 1);
  }
  for (const int64_t page : pages) {
    const uint8_t before = Replace(States() + page, [&](uint8_t state) {
      if (IsInMemory(state)) return int{state};
      return (NumUses(state) == 0 ? state + 1 : CountedUse(state, use)) | kInMemory;
    });
    if (IsInMemory(before)) continue;
    ++cache_->num_resident_;
    cache_->num_read_ += NumUses(before) != 0;  // else there was nothing to read
  }
}

/// Notes which pages are in memory, before uses are counted. All of them were written.
void CachedFile::FindResident() {
  const PageRange all{0, static_cast<int64_t>(memory_.allocated_bytes() / PageBytes())};
  std::vector<unsigned char> resident(static_cast<size_t>(all.count));
  memory_.GetResident(all, resident.data());
  std::vector<int64_t> pages;
  for (int64_t page = 0; page < all.count; ++page) {
    if ((resident[static_cast<size_t>(page)] & 1) == 0) continue;
    States()[page] = kChanged;
    pages.push_back(page);
  }
  if (!pages.empty()) Enter(pages, RowUse::kWrite);
}

/// Notes that a page is not in memory, unless a batch uses it; returns whether it was.
bool CachedFile::Leave(int64_t page) {
  if (cache_->running_[Load(Batches() + page)] > 0) return false;
  const uint8_t before = Replace(States() + page, NumUses);
  if (!IsInMemory(before)) return false;
  --cache_->num_resident_;
  cache_->num_written_ += (before & kChanged) != 0;
  return true;
}

void FetchRowsInFiles(const std::vector<RowsInFile>& planes, int64_t num_rows,
                      const int64_t* row_ids, RowUse use) {
  PageCache& cache = *planes.front().file->cache_;
  for (const RowsInFile& plane : planes) plane.file->memory_.CheckWrites();
  if (use == RowUse::kLookUp) {
    cache.num_requested_ +=
        num_rows - std::count_if(row_ids, row_ids + num_rows, [](int64_t row) { return row < 0; });
  }
  if (!cache.counts_) return;
  PagesInUse in_use(&cache, use);
  std::vector<std::vector<int64_t>> missing(planes.size());
  int64_t num_pages = 0;
  for (size_t i = 0; i < planes.size(); ++i) {
    const int64_t num_missed = planes[i].file->AddMissing(
        planes[i], num_rows, row_ids,
        [&](uint8_t* page, uint8_t* batch) { return in_use.Use(page, batch); }, &missing[i]);
    if (use == RowUse::kLookUp && i == 0) cache.num_missed_ += num_missed;
    num_pages += static_cast<int64_t>(missing[i].size());
  }
  // Also for what earlier batches needed beyond the limit.
  cache.MakeRoom(num_pages, in_use.size() - num_pages);
  for (size_t i = 0; i < planes.size(); ++i) {
    if (missing[i].empty()) continue;
    planes[i].file->memory_.Bring(RangesOf(missing[i]));
    planes[i].file->Enter(missing[i], use);
    planes[i].file->Refresh();
  }
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
    uint8_t* const page = States() + hand_;
    const uint8_t state = Load(page);
    if (!IsInMemory(state)) continue;
    if (NumUses(state) > cache_->seldom_ || !Leave(hand_)) {
      is_range_open = false;
      continue;
    }
    ++num_dropped;
    if (!is_range_open) dropped.push_back({hand_, 0});
    dropped.back().count = hand_ + 1 - dropped.back().first;
    is_range_open = true;
  }
  if (hand_ >= num_pages) hand_ = 0;
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
    const int64_t page = slice.first + i;
    const bool is_resident = (resident[static_cast<size_t>(i)] & 1) != 0;
    if (is_resident == IsInMemory(Load(States() + page))) continue;
    if (is_resident) {
      Enter({page}, RowUse::kRead);
    } else {
      Leave(page);
    }
  }
  refreshed_ += slice.count;
}

}  // namespace sok
