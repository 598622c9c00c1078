// SPDX-License-Identifier: Apache-2.0
// Which pages of files are in memory: a limit, and a clock that chooses those that leave it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/base/memory/file_memory.h"
#include "ops/base/memory/reserved_memory.h"

namespace sok {

class CachedFile;

/// Bytes are of all files now; the other numbers are since the cache was made.
struct PageCacheStatistics {
  int64_t resident_bytes = 0;
  int64_t allocated_bytes = 0;  // on the disk
  int64_t rows_requested = 0;   // by lookups
  int64_t rows_missed = 0;      // of these, those of which a page was not in memory
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;  // of pages that left memory
};

/// What a batch does with rows.
enum class RowUse {
  kLookUp,  // a lookup reads them
  kRead,
  kWrite,
  kUpdate,  // writes those of a lookup, which has counted the use
};

/// Rows in a file: where row 0 begins, and how far apart they are.
struct RowsInFile {
  CachedFile* file;
  const void* rows;
  int64_t row_bytes;
};

/// Brings the pages of rows `row_ids` (those below 0 are skipped; nullptr: 0, 1, 2, ...) of all
/// `planes`, which share a cache, into memory in one go, after others have left it if there are too
/// many. Throws kIo if the disk fails.
void FetchRowsInFiles(const std::vector<RowsInFile>& planes, int64_t num_rows,
                      const int64_t* row_ids, RowUse use);

/// A limit that files share, below which the pages used most stay. Each batch that uses a page
/// raises the page's count, which outlives its stay in memory. The hand of a clock drops pages with
/// at most `seldom_` uses; a round that finds too few raises `seldom_`, until at kSeldomEnds all
/// counts are halved, so that old uses are forgotten. Pages of running batches stay. Contents of
/// files never depend on it. While all files fit below the limit, no page leaves, and none is
/// counted.
class PageCache {
 public:
  /// Files are in `folder`, of which at most about `most_bytes`, at least a page, are in memory
  /// between two calls. Throws kNotFound and kInvalidArgument unless `folder` is a folder on a
  /// disk, and kNoSpace if the disk is smaller than the memory.
  PageCache(std::string folder, int64_t most_bytes);
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;

  const std::string& folder() const { return folder_; }
  int64_t most_bytes() const { return most_bytes_; }
  PageCacheStatistics Statistics();

 private:
  friend class CachedFile;
  friend class PagesInUse;
  friend void FetchRowsInFiles(const std::vector<RowsInFile>& planes, int64_t num_rows,
                               const int64_t* row_ids, RowUse use);

  int64_t AllocatedBytes() const;
  void CountIfTooMany();
  void MakeRoom(int64_t num_pages, int64_t num_in_use);
  void RaiseSeldom();

  const std::string folder_;
  const int64_t most_bytes_;
  const int64_t most_pages_;
  std::atomic<bool> counts_{false};       // uses of pages
  std::atomic<int64_t> num_resident_{0};  // pages
  std::atomic<int64_t> num_requested_{0};
  std::atomic<int64_t> num_missed_{0};
  std::atomic<int64_t> num_read_{0};     // pages
  std::atomic<int64_t> num_written_{0};  // pages
  std::mutex mutex_;
  std::vector<CachedFile*> files_;
  size_t hand_ = 0;  // a place in files_
  int seldom_ = 1;   // uses

  // Batches have the numbers 1 to kMostBatch, over and over: a page that an earlier batch of the
  // same number was the last to use counts as used by this one.
  static constexpr uint64_t kMostBatch = 255;
  std::atomic<uint64_t> last_batch_{0};
  std::array<std::atomic<int64_t>, kMostBatch + 1> running_{};  // by number
};

/// A file in a cache. Several threads may call at once, but for Grow and Release.
class CachedFile {
 public:
  CachedFile(std::shared_ptr<PageCache> cache, size_t size_bytes);
  ~CachedFile();

  void* data() const { return memory_.data(); }
  void Grow(size_t size_bytes);
  void Allocate(size_t end_bytes);
  void Release();

  bool IsResident(const void* begin, int64_t bytes) const;

 private:
  friend class PageCache;
  friend void FetchRowsInFiles(const std::vector<RowsInFile>& planes, int64_t num_rows,
                               const int64_t* row_ids, RowUse use);

  template <typename Use>
  int64_t AddMissing(const RowsInFile& plane, int64_t num_rows, const int64_t* row_ids,
                     const Use& use, std::vector<int64_t>* missing) const;
  void Enter(const std::vector<int64_t>& pages, RowUse use);
  bool Leave(int64_t page);
  uint8_t* States() const { return static_cast<uint8_t*>(states_.data()); }
  uint8_t* Batches() const { return static_cast<uint8_t*>(batches_.data()); }
  void FindResident();
  int64_t Sweep(int64_t wanted);
  void Refresh();

  const std::shared_ptr<PageCache> cache_;
  FileMemory memory_;
  // A byte of each page: its uses, 0 if it was never in memory, and flags. What the system does by
  // itself is found out a slice at a time, by Refresh: until then a page may be read late, or
  // counted twice.
  ReservedMemory states_;
  ReservedMemory batches_;             // of each page, a byte: the last batch that used it
  std::atomic<int64_t> num_pages_{0};  // that were used
  int64_t hand_ = 0;                   // the next page of the clock
  int64_t refreshed_ = 0;              // the next page for Refresh
};

}  // namespace sok
