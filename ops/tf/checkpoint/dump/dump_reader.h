// SPDX-License-Identifier: Apache-2.0
// Reads a dump of a table. Any file system that TensorFlow supports.
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

/// The pair of files of a dump or, without a note, of SparseOperationKit, of which only the sizes
/// can be checked.
///
/// All methods throw kNotFound, kPermissionDenied and kIo as the file system reports them, and
/// kDataLoss, naming the file, for corrupt files.
class DumpReader {
 public:
  /// Throws kInvalidArgument, with the sizes, for files that do not fit rows of `dim` floats and
  /// keys of 8 bytes (int64) or 4 (uint32).
  DumpReader(tensorflow::Env* env, const DumpPlaces& places, int64_t dim);

  std::vector<int64_t> ReadKeys();

  /// Identifies the dump; valid once everything has been read.
  std::string Signature() const;

  /// Calls use(first, count, rows [count, dim]) for all rows in order, at most `chunk_rows` at a
  /// time. The checksums have been verified when it returns.
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
