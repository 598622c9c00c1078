// SPDX-License-Identifier: Apache-2.0
// Appends to a file of this machine past the page cache, where the file system can: copying there,
// and clearing its pages, takes several times the processor time of all else in a save.
#pragma once

#include <cstdint>
#include <string>

#include "ops/base/memory/reserved_memory.h"
#include "ops/formats/files/file_system.h"

namespace sok {

class DirectFile : public FileSystem::Writer {
 public:
  /// `appends`: to a file that exists.
  DirectFile(std::string path, bool appends);
  ~DirectFile() override;
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  void Append(const char* data, size_t num_bytes) override;
  void Close() override;

 private:
  void WriteBuffer();

  const std::string path_;
  const ReservedMemory buffer_;
  size_t num_filled_ = 0;
  int64_t offset_ = 0;  // of the buffer in the file; of a block
  int descriptor_ = -1;
};

}  // namespace sok
