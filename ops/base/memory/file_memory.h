// SPDX-License-Identifier: Apache-2.0
// Address space over a file without a name; its pages may be on the disk only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sok {

size_t PageBytes();

/// Pages [first, first + count) of a mapping.
struct PageRange {
  int64_t first = 0;
  int64_t count = 0;
};

/// A shared mapping of an unlinked file, page-aligned, zero until written. The file ends with this
/// object or its process, however that ends. Reads of unallocated pages are zeros; a write to one
/// is a fatal signal if the disk is full, so call Allocate before.
class FileMemory {
 public:
  /// Throws the system's errors about `folder`, and kOutOfMemory for address space, or a file size,
  /// that is refused.
  FileMemory(const std::string& folder, size_t size_bytes);
  ~FileMemory();
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;

  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  size_t allocated_bytes() const { return allocated_bytes_; }

  /// Grows the mapping to `size_bytes`; data() may change. Throws kOutOfMemory and leaves the
  /// memory as it was.
  void Grow(size_t size_bytes);

  /// Allocates disk blocks up to `end_bytes`. Throws kNoSpace and leaves the file as it was.
  void Allocate(size_t end_bytes);

  /// Returns the blocks; the memory reads as zeros, and is not allocated.
  void Release();

  // Ranges ascend. Others may use the pages meanwhile.

  /// Brings pages into memory. Throws kIo if the disk fails.
  void Bring(const std::vector<PageRange>& ranges) const;

  /// Writes changed pages to the disk, and gives back their memory. Pages that others change
  /// meanwhile stay. Throws kIo if the disk fails: then contents may be lost.
  void Drop(const std::vector<PageRange>& ranges) const;

  /// Throws kIo if a write has ever failed: the system tells it once, and then takes what is on the
  /// disk for the contents.
  void CheckWrites() const;

  /// resident[i]: bit 0 is set if page range.first + i is in memory.
  void GetResident(const PageRange& range, unsigned char* resident) const;  // [range.count]

 private:
  char* Map(size_t size_bytes) const;
  char* PageAt(int64_t page) const;
  int Advise(const PageRange& range, int advice) const;
  void Request(const PageRange& range) const;
  void Await(const PageRange& range) const;
  void GiveBack(const PageRange& range) const;

  const std::string folder_;  // for messages
  int file_ = -1;
  char* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t allocated_bytes_ = 0;
  mutable std::atomic<bool> has_failed_{false};
};

}  // namespace sok
