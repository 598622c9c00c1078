// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/files/synced_file.h"

#include <utility>

#include "ops/base/local_files.h"

namespace sok {
namespace {

constexpr int64_t kBytesToSync = 16 << 20;

}  // namespace

SyncedFile::SyncedFile(const FileSystem& files, std::string path, bool appends)
    : path_(std::move(path)), file_(appends ? files.Extend(path_) : files.Create(path_)) {}

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
