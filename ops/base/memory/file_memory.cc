// SPDX-License-Identifier: Apache-2.0
// FileMemory on Linux.
#include "ops/base/memory/file_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "ops/base/error.h"
#include "ops/base/local_files.h"

namespace sok {
namespace {

constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, missing in headers before Linux 5.14
constexpr size_t kMostAheadBytes = size_t{256} << 20;
constexpr int64_t kPagesPerRequest = 32;  // a larger request is read in part only
constexpr size_t kRangesAhead = 256;      // more than the queue of a disk

/// A file that no folder lists. Not all file systems have O_TMPFILE.
int OpenUnlinked(const std::string& folder) {
  int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string path = folder + "/sok_plane_XXXXXX";
  file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

/// Of the disk of a file.
size_t FreeBytes(int file) {
  struct statvfs disk = {};
  return fstatvfs(file, &disk) == 0 ? size_t{disk.f_bavail} * disk.f_frsize : SIZE_MAX;
}

off_t OffsetOf(size_t bytes) { return static_cast<off_t>(bytes); }
off_t OffsetOfPage(int64_t page) { return OffsetOf(static_cast<size_t>(page) * PageBytes()); }

int SyncRange(int file, const PageRange& range, unsigned flags) {
  return sync_file_range(file, OffsetOfPage(range.first), OffsetOfPage(range.count), flags);
}

/// Calls start(range), and finish(range) while the disk is busy with ranges that were started
/// later.
template <typename Start, typename Finish>
void InTurns(const std::vector<PageRange>& ranges, const Start& start, const Finish& finish) {
  for (size_t i = 0; i < ranges.size() + kRangesAhead; ++i) {
    if (i < ranges.size()) start(ranges[i]);
    if (i >= kRangesAhead) finish(ranges[i - kRangesAhead]);
  }
}

}  // namespace

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

FileMemory::FileMemory(const std::string& folder, size_t size_bytes)
    : folder_(folder), file_(OpenUnlinked(folder)) {
  if (file_ < 0 && (errno == EMFILE || errno == ENFILE)) {
    Throw(
        ErrorCode::kOutOfMemory, folder, ": ", std::strerror(errno),
        "; the rows and each slot of a table in files are a file: raise the limit (ulimit -n), or "
        "make fewer tables");
  }
  if (file_ < 0) ThrowOfSystem(folder, errno);
  try {
    Grow(size_bytes);
  } catch (...) {
    close(file_);
    throw;
  }
}

FileMemory::~FileMemory() {
  munmap(data_, size_bytes_);
  close(file_);
}

char* FileMemory::PageAt(int64_t page) const {
  return data_ + static_cast<size_t>(page) * PageBytes();
}

int FileMemory::Advise(const PageRange& range, int advice) const {
  return madvise(PageAt(range.first), static_cast<size_t>(range.count) * PageBytes(), advice);
}

char* FileMemory::Map(size_t size_bytes) const {
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (data == MAP_FAILED) {
    Throw(ErrorCode::kOutOfMemory, "the system refused ", size_bytes,
          " bytes of address space for a file in ", folder_, "; ", std::strerror(errno));
  }
  // A fault reads its page only: rows are touched at random.
  madvise(data, size_bytes, MADV_RANDOM);
  return static_cast<char*>(data);
}

void FileMemory::Grow(size_t size_bytes) {
  if (size_bytes <= size_bytes_) return;
  const size_t bytes = (size_bytes + PageBytes() - 1) / PageBytes() * PageBytes();
  if (ftruncate(file_, OffsetOf(bytes)) != 0) {
    Throw(ErrorCode::kOutOfMemory, "the file system refused a file of ", bytes, " bytes in ",
          folder_, "; ", std::strerror(errno));
  }
  char* data = Map(bytes);
  if (data_ != nullptr) munmap(data_, size_bytes_);
  data_ = data;
  size_bytes_ = bytes;
}

void FileMemory::Allocate(size_t end_bytes) {
  if (end_bytes <= allocated_bytes_) return;
  const size_t needed = end_bytes - allocated_bytes_;
  const size_t ahead = std::min(allocated_bytes_ / 8, kMostAheadBytes);
  const auto allocate = [&](size_t bytes) {
    bytes = std::min(bytes, size_bytes_ - allocated_bytes_);
    if (bytes > FreeBytes(file_)) return ENOSPC;  // rather than fill the disk first
    int error = EINTR;
    while (error == EINTR) {
      error = posix_fallocate(file_, OffsetOf(allocated_bytes_), OffsetOf(bytes));
    }
    if (error == 0) {
      allocated_bytes_ += bytes;
    } else {  // some blocks may have been allocated
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, OffsetOf(allocated_bytes_),
                OffsetOf(bytes));
    }
    return error;
  };
  if (ahead > 0 && allocate(needed + ahead) == 0) return;
  const int error = allocate(needed);
  if (error == 0) return;
  Throw(error == EIO ? ErrorCode::kIo : ErrorCode::kNoSpace, folder_, ": the disk refused ", needed,
        " bytes for rows beside ", allocated_bytes_, " in the same file; ", std::strerror(error),
        ". Free space, or name a folder on a larger disk");
}

void FileMemory::Release() {
  if (ftruncate(file_, 0) != 0 || ftruncate(file_, OffsetOf(size_bytes_)) != 0) {
    ThrowOfSystem(folder_, errno);
  }
  allocated_bytes_ = 0;
}

void FileMemory::Bring(const std::vector<PageRange>& ranges) const {
  InTurns(
      ranges, [&](const PageRange& range) { Request(range); },
      [&](const PageRange& range) { Await(range); });
}

void FileMemory::Request(const PageRange& range) const {
  for (int64_t done = 0; done < range.count; done += kPagesPerRequest) {
    Advise({range.first + done, std::min(kPagesPerRequest, range.count - done)}, MADV_WILLNEED);
  }
}

void FileMemory::Await(const PageRange& range) const {
  // Reports as an error what would be a signal for a load. Older systems do not know it.
  if (Advise(range, kPopulateRead) == 0 || errno == EINVAL) return;
  Throw(errno == ENOMEM ? ErrorCode::kOutOfMemory : ErrorCode::kIo, folder_,
        ": rows could not be read; ", std::strerror(errno == EFAULT ? EIO : errno));
}

void FileMemory::CheckWrites() const {
  if (!has_failed_) return;
  Throw(ErrorCode::kIo, folder_,
        ": rows written before were lost, as the disk failed; restore the last checkpoint in a new "
        "process");
}

void FileMemory::Drop(const std::vector<PageRange>& ranges) const {
  InTurns(
      ranges, [&](const PageRange& range) { SyncRange(file_, range, SYNC_FILE_RANGE_WRITE); },
      [&](const PageRange& range) { GiveBack(range); });
}

void FileMemory::GiveBack(const PageRange& range) const {
  constexpr unsigned kWriteAndWait =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (SyncRange(file_, range, kWriteAndWait) != 0) {
    has_failed_ = true;
    Throw(ErrorCode::kIo, folder_, ": rows could not be written; ", std::strerror(errno));
  }
  // The page cache gives back pages that are clean and that no process has mapped.
  Advise(range, MADV_DONTNEED);
  posix_fadvise(file_, OffsetOfPage(range.first), OffsetOfPage(range.count), POSIX_FADV_DONTNEED);
}

void FileMemory::GetResident(const PageRange& range, unsigned char* resident) const {
  if (mincore(PageAt(range.first), static_cast<size_t>(range.count) * PageBytes(), resident) != 0) {
    ThrowOfSystem(folder_, errno);
  }
}

}  // namespace sok
