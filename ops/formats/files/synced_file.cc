// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/files/synced_file.h"

#include <utility>

#include "ops/base/local_files.h"
#include "ops/formats/files/direct_file.h"

namespace sok {
namespace {

constexpr int64_t kBytesToSync = 16 << 20;

std::unique_ptr<FileSystem::Writer> Open(const FileSystem& files, const std::string& path,
                                         bool appends) {
  if (IsLocalPath(path)) return std::make_unique<DirectFile>(path, appends);
  return appends ? files.Extend(path) : files.Create(path);
}

}  // namespace

SyncedFile::SyncedFile(const FileSystem& files, std::string path, bool appends)
    : path_(std::move(path)), file_(Open(files, path_, appends)) {}

void SyncedFile::Append(const char* data, size_t num_bytes) {
  file_->Append(data, num_bytes);
  num_bytes_ += static_cast<int64_t>(num_bytes);
  if (num_bytes_ - num_syncing_bytes_ < kBytesToSync || !IsLocalPath(path_)) return;
  BeginSync(path_);
  num_syncing_bytes_ = num_bytes_;
}

void SyncedFile::Finish() {
  file_->Close();
  SyncToDisk(path_);
}

}  // namespace sok
