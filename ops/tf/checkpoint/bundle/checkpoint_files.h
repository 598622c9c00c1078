// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint that several ranks write: where they are until all are complete, and
// how they replace an earlier checkpoint atomically.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/base/local_files.h"
#include "ops/formats/files/file_system.h"

namespace sok {

/// Each rank's part is <prefix>_temp_<id>/part-<rank>. Readers follow <prefix>.index only, which is
/// put in place last; data files have names that the existing index does not refer to.
class CheckpointFiles {
 public:
  /// `id`: of NewSaveId. Rank 0, which commits, creates the folder before other ranks call this.
  /// Throws the file system's errors, naming the folder.
  CheckpointFiles(const FileSystem& files, const std::string& prefix, const std::string& id,
                  int64_t rank);
  /// Removes everything that was not committed.
  ~CheckpointFiles();
  CheckpointFiles(const CheckpointFiles&) = delete;
  CheckpointFiles& operator=(const CheckpointFiles&) = delete;

  /// The prefix of a rank's bundle.
  std::string PartOf(int64_t rank) const;

  /// Turns all parts into the checkpoint; data_bytes: by part. An earlier checkpoint of that name
  /// exists until then and is gone afterwards, as are leftovers in the folder of saves that died.
  /// Throws kFailedPrecondition if a save of this process that began later has committed this name.
  void Commit(const std::vector<int64_t>& data_bytes);

 private:
  class Saves;

  void CheckParts(const std::vector<int64_t>& data_bytes) const;
  void Merge(int num_parts);
  void RemoveAbandoned() const;
  void RemoveUnusedData(const std::string& name) const;
  bool IsAbandoned(const std::string& folder, const std::string& id) const;

  const FileSystem& files_;
  const std::string prefix_;
  const std::string parent_;  // the folder of the checkpoint
  const std::string folder_;  // the folder of the parts
  const int64_t rank_;
  std::optional<NewFile> in_use_;  // locked while the folder exists
  bool is_overtaken_ = false;      // guarded by the mutex of Saves
};

}  // namespace sok
