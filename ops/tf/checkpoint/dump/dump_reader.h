// SPDX-License-Identifier: Apache-2.0
// Reads a table's files. Any file system that TensorFlow knows.
#ifndef SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_READER_H_
#define SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/tf/checkpoint/dump/dump_note.h"
#include "tensorflow/core/platform/env.h"

namespace sok {

/// The pair of files of one dump, or, where no note stands beside them, as SparseOperationKit
/// leaves them, of which nothing but the sizes can be checked.
///
/// All throw kNotFound, kPermissionDenied, kIo as the file system says, and kDataLoss, naming the
/// file, for what is not as it was written.
class DumpReader {
 public:
  /// Throws kInvalidArgument, naming the sizes, for what does not fit rows of `dim` floats and keys
  /// of 8 bytes (int64) or 4 (uint32).
  DumpReader(tensorflow::Env* env, const DumpPlaces& places, int64_t dim);

  std::vector<int64_t> ReadKeys();

  /// When all has been read: the same for the same dump, for another one not.
  std::string WhatWasRead() const;

  /// use(first, count, rows [count, dim]) for all rows in order, at most `chunk_rows` at a time.
  /// What was read is known to be right when it returns.
  void ForEachChunk(
      int64_t chunk_rows,
      const std::function<void(int64_t first, int64_t count, const float* rows)>& use);

 private:
  class File;

  void Open();
  void FollowNote();
  void MeasureFiles();
  bool HasAnotherNote() const;
  void CheckSum(const File& file, uint32_t expected) const;

  tensorflow::Env* const env_;
  const DumpPlaces places_;
  const int64_t dim_;
  int64_t num_keys_ = 0;
  int64_t key_bytes_ = 0;
  std::optional<DumpNote> note_;
  std::shared_ptr<File> keys_;
  std::shared_ptr<File> rows_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_READER_H_
