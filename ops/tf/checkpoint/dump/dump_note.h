// SPDX-License-Identifier: Apache-2.0
// SOK's pair of files for a table, keys and rows without headers, and a third file with a note that
// describes them.
#ifndef SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_NOTE_H_
#define SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_NOTE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tensorflow/core/platform/env.h"

namespace sok {

/// The paths of a dump's files. Paths of this machine are cleaned as by TensorFlow, without
/// "file://". Throws kInvalidArgument for an empty folder, a folder of another machine, and a name
/// that would lead out of it.
class DumpPlaces {
 public:
  DumpPlaces(const std::string& folder, const std::string& name);

  std::string keys() const { return stem_ + "_keys.file"; }
  std::string rows() const { return stem_ + "_values.file"; }
  std::string note() const { return stem_ + ".dump"; }
  /// The folder of the files: names may contain folders.
  std::string folder() const;
  /// Throws kNotFound, naming the tables that exist, if the file of keys is missing.
  void CheckAreThere(tensorflow::Env* env) const;

  /// The path of a file until the dump `id` is complete; left behind if the process dies at that
  /// moment.
  static std::string TemporaryPath(const std::string& path, const std::string& id) {
    return path + "." + id;
  }
  /// Whether a file in the folder has such a name.
  bool IsTemporary(const std::string& file_name) const;

 private:
  std::string root_;
  std::string name_;
  std::string stem_;
};

/// Describes a dump's files. The note makes them a dump: it is put in place atomically, and has the
/// id under which the files may still be found.
struct DumpNote {
  static constexpr size_t kIdDigits = 24;

  std::string id;  // hexadecimal digits
  int64_t num_keys = 0;
  int64_t key_bytes = 8;  // 8: int64; 4: uint32
  int64_t dim = 0;        // floats per row
  uint32_t keys_sum = 0;  // CRC-32C of the file
  uint32_t rows_sum = 0;

  std::string ToText() const;
  /// Returns nullopt if there is no such file. Throws kDataLoss for other text.
  static std::optional<DumpNote> Read(tensorflow::Env* env, const std::string& path);
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_NOTE_H_
