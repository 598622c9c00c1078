// SPDX-License-Identifier: Apache-2.0
// A file that the disk already writes while more is appended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ops/formats/files/file_system.h"

namespace sok {

/// Errors name the file.
class SyncedFile {
 public:
  /// `appends`: to a file that exists.
  SyncedFile(const FileSystem& files, std::string path, bool appends = false);

  void Append(const char* data, size_t num_bytes);
  /// Returns when all bytes are on the disk.
  void Finish();

  const std::string& path() const { return path_; }
  int64_t num_appended() const { return num_bytes_; }

 private:
  const std::string path_;
  const std::unique_ptr<FileSystem::Writer> file_;
  int64_t num_bytes_ = 0, num_syncing_bytes_ = 0;
};

}  // namespace sok
