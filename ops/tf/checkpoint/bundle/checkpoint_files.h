// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint that several ranks write: where they are until all are there, and how
// they get to their places in one instant.
#ifndef SOK_OPS_TF_CHECKPOINT_BUNDLE_CHECKPOINT_FILES_H_
#define SOK_OPS_TF_CHECKPOINT_BUNDLE_CHECKPOINT_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/base/local_files.h"
#include "tensorflow/core/platform/env.h"

namespace sok {

/// Of each rank's part, <prefix>_temp_<id>/part-<rank>. Readers follow <prefix>.index alone, which
/// is put in its place last; data files have names that the index which is there does not know.
class CheckpointFiles {
 public:
  /// Of no other save, also by a process that began in the same instant. Tells the machine.
  static std::string NewId();

  /// Rank 0, which commits, makes the folder; it is there before the others come here. Throws what
  /// the file system says, naming the folder.
  CheckpointFiles(tensorflow::Env* env, const std::string& prefix, const std::string& id,
                  int64_t rank);
  /// Removes what was not committed.
  ~CheckpointFiles();
  CheckpointFiles(const CheckpointFiles&) = delete;
  CheckpointFiles& operator=(const CheckpointFiles&) = delete;

  /// Of the bundle that a rank writes.
  std::string PartOf(int64_t rank) const;

  /// Makes all parts the checkpoint; data_bytes: of each. An earlier one of that name is there
  /// until then, and gone afterwards, as is what saves that died have left in the folder.
  void Commit(const std::vector<int64_t>& data_bytes);

 private:
  void CheckParts(const std::vector<int64_t>& data_bytes) const;
  void Merge(int num_parts);
  void RemoveAbandoned() const;
  void RemoveUnusedData(const std::string& name) const;
  bool IsAbandoned(const std::string& folder, const std::string& id) const;

  tensorflow::Env* const env_;
  const std::string prefix_;
  const std::string parent_;  // the folder of the checkpoint
  const std::string folder_;  // that of the parts
  const int64_t rank_;
  std::optional<NewFile> in_use_;  // held while the folder is
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_CHECKPOINT_FILES_H_
