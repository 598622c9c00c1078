// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/checkpoint_files.h"

#include <algorithm>
#include <cstdio>

#include "ops/base/error.h"
#include "ops/formats/bundle/bundle.h"
#include "ops/formats/files/save_id.h"
#include "ops/tf/base/file_errors.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/checkpoint/bundle/bundle_index.h"
#include "tensorflow/core/platform/path.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"

namespace sok {
namespace {

namespace tf = tensorflow;

constexpr char kTemporary[] = "_temp_";
constexpr char kInUse[] = "/in_use";
constexpr char kMerged[] = "/merged";
constexpr int64_t kLongNanoseconds = int64_t{3600} * 1000 * 1000 * 1000;

/// {name of the checkpoint, id} from the name of the folder of its parts; empty if it is no such
/// folder.
std::pair<std::string, std::string> NameAndId(const std::string& folder) {
  const size_t at = folder.rfind(kTemporary);
  if (at == std::string::npos || at == 0) return {};
  std::string id = folder.substr(at + sizeof(kTemporary) - 1);
  return IsSaveId(id) ? std::make_pair(folder.substr(0, at), id)
                      : std::pair<std::string, std::string>();
}

/// The number of shards in the name of a data file, <name>.data-00000-of-00002; 0 for other files.
int64_t NumShardsIn(const std::string& file, const std::string& name) {
  int shard = 0, num_shards = 0;
  if (file.compare(0, name.size(), name) != 0) return 0;
  const std::string end = file.substr(name.size());
  if (std::sscanf(end.c_str(), ".data-%5d-of-%5d", &shard, &num_shards) != 2) return 0;
  return tf::DataFilename(name, shard, num_shards) == file ? num_shards : 0;
}

/// The number of shards in the index of a checkpoint; 0 if there is no readable one.
int64_t NumShardsOf(const std::string& prefix) {
  try {
    return Bundle(TfFileSystem(), prefix).num_shards();
  } catch (const Error&) {
    return 0;
  }
}

std::string ParentOf(const std::string& prefix) {
  const std::string parent(tf::io::Dirname(prefix));
  return parent.empty() ? "." : parent;
}

/// The path without a "file://".
std::string WithoutScheme(const std::string& prefix) {
  static const std::string kScheme = "file://";
  return prefix.compare(0, kScheme.size(), kScheme) == 0 ? prefix.substr(kScheme.size()) : prefix;
}

}  // namespace

CheckpointFiles::CheckpointFiles(tf::Env* env, const std::string& prefix, const std::string& id,
                                 int64_t rank)
    : env_(env),
      prefix_(WithoutScheme(prefix)),
      parent_(ParentOf(prefix_)),
      folder_(prefix_ + kTemporary + id),
      rank_(rank) {
  if (rank_ != 0) {  // it exists, unless this rank has a disk of its own: Commit reports that
    ThrowOfFile(env_->RecursivelyCreateDir(folder_), folder_);
    return;
  }
  ThrowOfFile(env_->RecursivelyCreateDir(parent_), parent_);
  const FolderLock lock(parent_, FolderLock::Mode::kShared);
  ThrowOfFile(env_->RecursivelyCreateDir(folder_), folder_);
  if (IsLocalPath(folder_)) in_use_.emplace(folder_ + kInUse);
}

CheckpointFiles::~CheckpointFiles() {
  if (!env_->FileExists(folder_).ok()) return;
  if (rank_ == 0) {
    int64_t files = 0, folders = 0;
    env_->DeleteRecursively(folder_, &files, &folders).IgnoreError();
    return;
  }
  env_->DeleteFile(tf::MetaFilename(PartOf(rank_))).IgnoreError();
  env_->DeleteFile(tf::DataFilename(PartOf(rank_), 0, 1)).IgnoreError();
  env_->DeleteDir(folder_).IgnoreError();  // in case it is on this rank's own disk
}

std::string CheckpointFiles::PartOf(int64_t rank) const {
  return folder_ + "/part-" + std::to_string(rank);
}

void CheckpointFiles::Commit(const std::vector<int64_t>& data_bytes) {
  CheckParts(data_bytes);
  const FolderLock lock(parent_, FolderLock::Mode::kAlone);
  Merge(static_cast<int>(data_bytes.size()));
  RemoveUnusedData(std::string(tf::io::Basename(prefix_)));
  if (IsLocalPath(parent_)) RemoveAbandoned();
}

void CheckpointFiles::CheckParts(const std::vector<int64_t>& data_bytes) const {
  for (size_t rank = 0; rank < data_bytes.size(); ++rank) {
    const std::string path = tf::DataFilename(PartOf(static_cast<int64_t>(rank)), 0, 1);
    uint64_t num_bytes = 0;
    const absl::Status status = env_->GetFileSize(path, &num_bytes);
    if (status.ok() && static_cast<int64_t>(num_bytes) == data_bytes[rank]) continue;
    Throw(ErrorCode::kFailedPrecondition, "rank ", rank, " has written its part of the checkpoint ",
          prefix_, ", ", data_bytes[rank], " bytes, but rank 0 does not find it in ", path,
          ": the ranks do not share this folder. Save to a folder that all machines share, or set "
          "SOK_CHECKPOINTS_ON_RANK_0=1 on all ranks: rank 0 then writes everything");
  }
}

/// Uses one more, empty data file if the checkpoint to replace has the same number of files.
void CheckpointFiles::Merge(int num_parts) {
  BundleEntries merged;
  for (int part = 0; part < num_parts; ++part) MergeEntries(ReadIndex(PartOf(part)), part, &merged);
  int num_shards = num_parts;
  if (NumShardsOf(prefix_) == num_parts) {
    const std::string path = tf::DataFilename(PartOf(num_shards++), 0, 1);
    ThrowOfFile(tf::WriteStringToFile(env_, path, ""), path);
  }
  const std::string index = tf::MetaFilename(folder_ + kMerged);
  WriteIndex(env_, folder_ + kMerged, merged, num_shards);
  SyncToDisk(index);
  for (int shard = 0; shard < num_shards; ++shard) {
    const std::string place = tf::DataFilename(prefix_, shard, num_shards);
    ThrowOfFile(env_->RenameFile(tf::DataFilename(PartOf(shard), 0, 1), place), place);
  }
  SyncToDisk(parent_);
  const std::string place = tf::MetaFilename(prefix_);
  ThrowOfFile(env_->RenameFile(index, place), place);
  SyncToDisk(parent_);
}

/// Removes data files that the index does not refer to, if there is an index.
void CheckpointFiles::RemoveUnusedData(const std::string& name) const {
  const std::string prefix = tf::io::JoinPath(parent_, name);
  const int64_t num_shards = NumShardsOf(prefix);
  if (num_shards == 0 && env_->FileExists(tf::MetaFilename(prefix)).ok()) return;
  std::vector<std::string> files;
  if (!env_->GetChildren(parent_, &files).ok()) return;
  for (const std::string& file : files) {
    const int64_t of = NumShardsIn(file, name);
    if (of != 0 && of != num_shards)
      env_->DeleteFile(tf::io::JoinPath(parent_, file)).IgnoreError();
  }
}

/// Removes the leftovers of saves that died.
void CheckpointFiles::RemoveAbandoned() const {
  std::vector<std::string> folders;
  if (!env_->GetChildren(parent_, &folders).ok()) return;
  for (const std::string& each : folders) {
    const auto [name, id] = NameAndId(each);
    const std::string folder = tf::io::JoinPath(parent_, each);
    if (id.empty() || folder == folder_ || !IsAbandoned(folder, id)) continue;
    RemoveUnusedData(name);
    int64_t num_files = 0, num_folders = 0;
    env_->DeleteRecursively(folder, &num_files, &num_folders).IgnoreError();
  }
}

/// Locks are visible on one machine only; leftovers of other machines are judged by age.
bool CheckpointFiles::IsAbandoned(const std::string& folder, const std::string& id) const {
  tf::FileStatistics state, now;
  if (!IsOfThisMachine(id)) {
    if (!env_->Stat(folder, &state).ok() || !env_->Stat(tf::MetaFilename(prefix_), &now).ok() ||
        state.mtime_nsec > now.mtime_nsec - kLongNanoseconds)
      return false;
  }
  sok::RemoveAbandoned(folder + kInUse);
  return !env_->FileExists(folder + kInUse).ok();
}

}  // namespace sok
