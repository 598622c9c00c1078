// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/tf_file_system.h"

#include <algorithm>
#include <cstring>

#include "ops/base/error.h"
#include "ops/tf/base/file_errors.h"
#include "ops/tf/base/namespace_tf.h"
#include "ops/tf/base/tf_versions.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"

namespace sok {
namespace {

class TfReader : public FileSystem::Reader {
 public:
  explicit TfReader(const std::string& path) : path_(path) {
    ThrowOfFile(tf::Env::Default()->NewRandomAccessFile(path_, &file_), path_);
  }
  size_t Read(int64_t offset, size_t num_bytes, char* to) const override {
    absl::string_view read;
    const absl::Status status =
        ReadAt(*file_, static_cast<uint64_t>(offset), absl::MakeSpan(to, num_bytes), &read);
    if (!absl::IsOutOfRange(status)) ThrowOfFile(status, path_);
    if (read.data() != to) std::memcpy(to, read.data(), read.size());
    return read.size();
  }

 private:
  const std::string path_;
  std::unique_ptr<tf::RandomAccessFile> file_;
};

class TfWriter : public FileSystem::Writer {
 public:
  TfWriter(const std::string& path, bool appends) : path_(path) {
    tf::Env* const env = tf::Env::Default();
    ThrowOfFile(
        appends ? env->NewAppendableFile(path_, &file_) : env->NewWritableFile(path_, &file_),
        path_);
  }
  void Append(const char* data, size_t num_bytes) override {
    ThrowOfFile(file_->Append(absl::string_view(data, num_bytes)), path_);
  }
  void Close() override { ThrowOfFile(file_->Close(), path_); }

 private:
  const std::string path_;
  std::unique_ptr<tf::WritableFile> file_;
};

class FilesOfTf : public FileSystem {
 public:
  std::unique_ptr<Reader> Open(const std::string& path) const override {
    return std::make_unique<TfReader>(path);
  }
  std::unique_ptr<Writer> Create(const std::string& path) const override {
    return std::make_unique<TfWriter>(path, /*appends=*/false);
  }
  std::unique_ptr<Writer> Extend(const std::string& path) const override {
    return std::make_unique<TfWriter>(path, /*appends=*/true);
  }
  bool Exists(const std::string& path) const override {
    const absl::Status status = env().FileExists(path);
    if (!absl::IsNotFound(status)) ThrowOfFile(status, path);
    return status.ok();
  }
  bool IsFolder(const std::string& path) const override { return env().IsDirectory(path).ok(); }
  int64_t Size(const std::string& path) const override {
    uint64_t num_bytes = 0;
    ThrowOfFile(env().GetFileSize(path, &num_bytes), path);
    return static_cast<int64_t>(num_bytes);
  }
  void Rename(const std::string& from, const std::string& to) const override {
    ThrowOfFile(env().RenameFile(from, to), to);
  }
  void Remove(const std::string& path) const override { env().DeleteFile(path).IgnoreError(); }
  void MakeFolder(const std::string& path) const override {
    ThrowOfFile(env().RecursivelyCreateDir(path), path);
  }
  void RemoveEmptyFolder(const std::string& path) const override {
    env().DeleteDir(path).IgnoreError();
  }
  void RemoveFolder(const std::string& path) const override {
    int64_t num_files = 0, num_folders = 0;
    env().DeleteRecursively(path, &num_files, &num_folders).IgnoreError();
  }
  std::vector<std::string> List(const std::string& folder) const override {
    std::vector<std::string> names;
    env().GetChildren(folder, &names).IgnoreError();
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  static tf::Env& env() { return *tf::Env::Default(); }
};

}  // namespace

const FileSystem& TfFileSystem() {
  static const FilesOfTf kFiles;
  return kFiles;
}

std::string CleanFolder(const std::string& folder) {
  static const std::string kIsEmpty =
      "the folder of a table's files is empty; '.' is the current one";
  absl::string_view scheme, host, path;
  tf::io::ParseURI(folder, &scheme, &host, &path);
  if (!scheme.empty() && scheme != "file") return folder;
  if (!host.empty() && host != "localhost") {
    Throw(ErrorCode::kInvalidArgument, folder, " is a path of the host '", std::string(host),
          "'; write a folder of this machine as file:///folder");
  }
  if (path.empty()) Throw(ErrorCode::kInvalidArgument, kIsEmpty);
  return tf::io::CleanPath(path);
}

}  // namespace sok
