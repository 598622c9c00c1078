// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/key_file.h"

#include <algorithm>
#include <cstring>

#include "ops/base/error.h"
#include "tensorflow/core/platform/path.h"

namespace sok {

namespace tf = tensorflow;

namespace {

constexpr size_t kBufferBytes = 1 << 20;

void ThrowIfFailed(const absl::Status& status, const std::string& path) {
  if (!status.ok()) Throw(ErrorCode::kIo, path, ": ", std::string(status.message()));
}

uint64_t FileSize(tf::Env* env, const std::string& path) {
  tf::uint64 size_bytes = 0;
  ThrowIfFailed(env->GetFileSize(path, &size_bytes), path);
  return size_bytes;
}

void ReadAt(const tf::RandomAccessFile& file, const std::string& path, uint64_t offset,
            size_t size_bytes, void* out) {
  absl::string_view read;
  ThrowIfFailed(file.Read(offset, size_bytes, &read, static_cast<char*>(out)), path);
  if (read.data() != out) std::memcpy(out, read.data(), read.size());
}

}  // namespace

ReplacedFile::ReplacedFile(tf::Env* env, const std::string& path)
    : env_(env), path_(path), partial_path_(path + ".partial") {
  const std::string folder(tf::io::Dirname(path));
  if (!folder.empty()) ThrowIfFailed(env_->RecursivelyCreateDir(folder), folder);
  ThrowIfFailed(env_->NewWritableFile(partial_path_, &file_), partial_path_);
}

ReplacedFile::~ReplacedFile() {
  if (!file_) return;
  file_.reset();
  env_->DeleteFile(partial_path_).IgnoreError();
}

void ReplacedFile::Append(const void* data, size_t size_bytes) {
  buffer_.append(static_cast<const char*>(data), size_bytes);
  if (buffer_.size() >= kBufferBytes) Flush();
}

void ReplacedFile::Flush() {
  ThrowIfFailed(file_->Append(buffer_), partial_path_);
  buffer_.clear();
}

void ReplacedFile::Finish() {
  Flush();
  ThrowIfFailed(file_->Close(), partial_path_);
}

void ReplacedFile::CheckCanCommit() const {
  if (env_->IsDirectory(path_).ok()) Throw(ErrorCode::kIo, path_, ": is a folder");
}

void ReplacedFile::Commit() {
  ThrowIfFailed(env_->RenameFile(partial_path_, path_), path_);
  file_.reset();
}

KeyFiles::KeyFiles(tf::Env* env, const std::string& keys_path, const std::string& values_path,
                   int64_t dim)
    : keys_path_(keys_path), values_path_(values_path), dim_(dim) {
  const uint64_t keys_bytes = FileSize(env, keys_path);
  const uint64_t values_bytes = FileSize(env, values_path);
  const uint64_t row_bytes = static_cast<uint64_t>(dim) * sizeof(float);
  num_keys_ = static_cast<int64_t>(values_bytes / row_bytes);
  key_bytes_ = num_keys_ == 0 ? sizeof(int64_t) : keys_bytes / static_cast<uint64_t>(num_keys_);
  const bool fits = values_bytes % row_bytes == 0 &&
                    keys_bytes == static_cast<uint64_t>(num_keys_) * key_bytes_ &&
                    (key_bytes_ == sizeof(int64_t) || key_bytes_ == sizeof(uint32_t));
  if (!fits) {
    Throw(ErrorCode::kInvalidArgument, keys_path, " has ", keys_bytes, " bytes and ", values_path,
          " has ", values_bytes, ": not one key of 8 or 4 bytes for each row of ", dim, " floats (",
          row_bytes, " bytes); were they written for another embedding_vec_size?");
  }
  ThrowIfFailed(env->NewRandomAccessFile(keys_path, &keys_file_), keys_path);
  ThrowIfFailed(env->NewRandomAccessFile(values_path, &values_file_), values_path);
}

std::vector<int64_t> KeyFiles::ReadKeys() const {
  std::vector<int64_t> keys(static_cast<size_t>(num_keys_));
  if (key_bytes_ == sizeof(int64_t)) {
    ReadAt(*keys_file_, keys_path_, 0, keys.size() * key_bytes_, keys.data());
    return keys;
  }
  std::vector<uint32_t> narrow(keys.size());
  ReadAt(*keys_file_, keys_path_, 0, narrow.size() * key_bytes_, narrow.data());
  std::copy(narrow.begin(), narrow.end(), keys.begin());
  return keys;
}

void KeyFiles::ForEachChunk(
    int64_t chunk_rows,
    const std::function<void(int64_t first, int64_t count, const float* rows)>& use) const {
  std::vector<float> rows;
  for (int64_t first = 0; first < num_keys_; first += chunk_rows) {
    const int64_t count = std::min(chunk_rows, num_keys_ - first);
    rows.resize(static_cast<size_t>(count * dim_));
    ReadAt(*values_file_, values_path_, static_cast<uint64_t>(first * dim_) * sizeof(float),
           rows.size() * sizeof(float), rows.data());
    use(first, count, rows.data());
  }
}

}  // namespace sok
