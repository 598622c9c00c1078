// SPDX-License-Identifier: Apache-2.0
// SOK's pair of files: keys, and values in the same order, without headers. Any file system that
// TensorFlow knows.
#ifndef SOK_OPS_TF_KEY_FILE_H_
#define SOK_OPS_TF_KEY_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/platform/env.h"

namespace sok {

/// A file that is written beside its final place and moved there by Commit; without Commit nothing
/// is left behind. Failures throw kIo.
class ReplacedFile {
 public:
  /// Makes the folders of `path` that do not exist.
  ReplacedFile(tensorflow::Env* env, const std::string& path);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;

  void Append(const void* data, size_t size_bytes);
  void Finish();
  /// kIo when Commit could not move the file: a folder stands in its place.
  void CheckCanCommit() const;
  void Commit();

 private:
  void Flush();

  tensorflow::Env* env_;
  const std::string path_;
  const std::string partial_path_;
  std::unique_ptr<tensorflow::WritableFile> file_;
  std::string buffer_;
};

/// Reads a pair of files whose sizes fit each other.
class KeyFiles {
 public:
  /// kIo when a file cannot be read; kInvalidArgument, naming the sizes, when they do not fit rows
  /// of `dim` floats and keys of 8 bytes (int64) or 4 (uint32).
  KeyFiles(tensorflow::Env* env, const std::string& keys_path, const std::string& values_path,
           int64_t dim);

  std::vector<int64_t> ReadKeys() const;

  /// use(first, count, rows [count, dim]) for all rows in order, at most `chunk_rows` at a time.
  void ForEachChunk(
      int64_t chunk_rows,
      const std::function<void(int64_t first, int64_t count, const float* rows)>& use) const;

 private:
  const std::string keys_path_;
  const std::string values_path_;
  const int64_t dim_;
  int64_t num_keys_ = 0;
  size_t key_bytes_ = 0;
  std::unique_ptr<tensorflow::RandomAccessFile> keys_file_;
  std::unique_ptr<tensorflow::RandomAccessFile> values_file_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_KEY_FILE_H_
