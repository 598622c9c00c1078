// SPDX-License-Identifier: Apache-2.0
// SOK's pair of files for a table, keys and rows without headers, and a third one beside them that
// says what they are.
#ifndef SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_NOTE_H_
#define SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_NOTE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tensorflow/core/platform/env.h"

namespace sok {

/// Where the files of a dump are. Paths of this machine are cleaned as TensorFlow cleans them, and
/// have no "file://". Throws kInvalidArgument for an empty folder, one of another machine, and for
/// a name that would lead out of it.
class DumpPlaces {
 public:
  DumpPlaces(const std::string& folder, const std::string& name);

  std::string keys() const { return stem_ + "_keys.file"; }
  std::string rows() const { return stem_ + "_values.file"; }
  std::string note() const { return stem_ + ".dump"; }
  /// The folder that they are in: names may contain folders.
  std::string folder() const;
  /// Throws kNotFound where the file of keys is not there, with the names of tables that are.
  void CheckAreThere(tensorflow::Env* env) const;

  /// Where a file is until the dump `id` is complete, and remains if the process dies just there.
  static std::string Until(const std::string& path, const std::string& id) {
    return path + "." + id;
  }
  /// Whether a file in the folder has such a name.
  bool IsUntil(const std::string& file_name) const;

 private:
  std::string root_;
  std::string name_;
  std::string stem_;
};

/// What a dump's files are. The note is the dump: it is put in its place at once, and says under
/// which names the files may still be found.
struct DumpNote {
  static constexpr size_t kIdDigits = 24;

  std::string id;  // hexadecimal digits
  int64_t num_keys = 0;
  int64_t key_bytes = 8;  // 8: int64; 4: uint32
  int64_t dim = 0;        // floats in a row
  uint32_t keys_sum = 0;  // CRC-32C of the file
  uint32_t rows_sum = 0;

  std::string ToText() const;
  /// Nothing where there is no such file. Throws kDataLoss for other text.
  static std::optional<DumpNote> Read(tensorflow::Env* env, const std::string& path);
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_DUMP_DUMP_NOTE_H_
