// SPDX-License-Identifier: Apache-2.0
// Writes a dump of a table, all or nothing. Any file system that TensorFlow supports.
#ifndef SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_WRITER_H_
#define SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ops/tf/checkpoint/dump/dump_note.h"
#include "tensorflow/core/platform/env.h"

namespace sok {

/// A dump being written, under temporary names, which are removed unless Commit is called. Readers
/// ignore leftovers of a process that died, and a later dump removes them.
class DumpWriter {
 public:
  /// Creates missing folders. Throws, as all methods here, the file system's errors: kNotFound,
  /// kPermissionDenied, kNoSpace, kIo.
  DumpWriter(tensorflow::Env* env, const DumpPlaces& places, int64_t key_bytes, int64_t dim);
  ~DumpWriter();
  DumpWriter(const DumpWriter&) = delete;
  DumpWriter& operator=(const DumpWriter&) = delete;

  void Append(int64_t key, const char* row);

  /// Replaces an earlier dump atomically, once everything is on the disk. Throws kIo if another
  /// process has changed the files.
  void Commit();

 private:
  class File;

  void CheckPlaces() const;
  std::string IdInPlace() const;
  void PutInPlace(const std::string& place) const;
  void RemoveLeftovers(const std::string& earlier_id) const;

  tensorflow::Env* const env_;
  const DumpPlaces places_;
  DumpNote note_;
  std::unique_ptr<File> keys_;
  std::unique_ptr<File> rows_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_WRITER_H_
