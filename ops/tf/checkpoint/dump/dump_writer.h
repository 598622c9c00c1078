// SPDX-License-Identifier: Apache-2.0
// Writes a table's files, whole or not at all. Any file system that TensorFlow knows.
#ifndef SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_WRITER_H_
#define SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ops/tf/checkpoint/dump/dump_note.h"
#include "tensorflow/core/platform/env.h"

namespace sok {

/// A dump in the making, under names of its own; without Commit nothing is left of it. What a
/// process that dies leaves, no reader takes for a dump, and a later dump removes.
class DumpWriter {
 public:
  /// Makes the folders that do not exist. Throws as all others here what the file system says:
  /// kNotFound, kPermissionDenied, kNoSpace, kIo.
  DumpWriter(tensorflow::Env* env, const DumpPlaces& places, int64_t key_bytes, int64_t dim);
  ~DumpWriter();
  DumpWriter(const DumpWriter&) = delete;
  DumpWriter& operator=(const DumpWriter&) = delete;

  void Append(int64_t key, const char* row);

  /// Puts the dump in the place of an earlier one, in one instant, when all of it is on the disk.
  /// Throws kIo where it is not there any more as it was written.
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
