// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/checkpoint_files.h"

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "ops/base/error.h"
#include "ops/formats/bundle/bundle.h"
#include "ops/formats/files/save_id.h"
#include "ops/tf/checkpoint/bundle/bundle_index.h"

namespace sok {
namespace {

constexpr char kTemporary[] = "_temp_";
constexpr char kInUse[] = "/in_use";
constexpr char kMerged[] = "/merged";

/// The number of shards in the name of a data file, <name>.data-00000-of-00002; 0 for other files.
int64_t NumShardsIn(const std::string& file, const std::string& name) {
  int shard = 0, num_shards = 0;
  if (file.compare(0, name.size(), name) != 0) return 0;
  const std::string end = file.substr(name.size());
  if (std::sscanf(end.c_str(), ".data-%5d-of-%5d", &shard, &num_shards) != 2) return 0;
  return DataPath(name, shard, num_shards) == file ? num_shards : 0;
}

/// The number of shards in the index of a checkpoint; 0 if there is no readable one.
int64_t NumShardsOf(const FileSystem& files, const std::string& prefix) {
  try {
    return Bundle(files, prefix).num_shards();
  } catch (const Error&) {
    return 0;
  }
}

/// The path without a "file://".
std::string WithoutScheme(const std::string& prefix) {
  static const std::string kScheme = "file://";
  return prefix.compare(0, kScheme.size(), kScheme) == 0 ? prefix.substr(kScheme.size()) : prefix;
}

}  // namespace

/// The saves of this process that rank 0 may commit, in the order in which they began. Steps go on
/// before a commit, so that a save that takes long may have older rows than one that has ended.
class CheckpointFiles::Saves {
 public:
  static Saves& OfProcess() {
    static Saves* const saves = new Saves;
    return *saves;
  }
  void Add(CheckpointFiles* save) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.push_back(save);
  }
  void Remove(CheckpointFiles* save) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.erase(std::find(all_.begin(), all_.end(), save));
  }
  bool IsOvertaken(const CheckpointFiles& save) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return save.is_overtaken_;
  }
  void Overtake(const CheckpointFiles& save) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (CheckpointFiles* earlier : all_) {
      if (earlier == &save) return;
      if (earlier->prefix_ == save.prefix_) earlier->is_overtaken_ = true;
    }
  }

 private:
  std::mutex mutex_;
  std::vector<CheckpointFiles*> all_;
};

CheckpointFiles::CheckpointFiles(const FileSystem& files, const std::string& prefix,
                                 const std::string& id, int64_t rank)
    : files_(files),
      prefix_(WithoutScheme(prefix)),
      parent_(FolderOf(prefix_)),
      folder_(prefix_ + kTemporary + id),
      rank_(rank) {
  if (rank_ != 0) {  // it exists, unless this rank has a disk of its own: Commit reports that
    files_.MakeFolder(folder_);
    return;
  }
  files_.MakeFolder(parent_);
  const FolderLock lock(parent_, FolderLock::Mode::kShared);
  files_.MakeFolder(folder_);
  if (IsLocalPath(folder_)) in_use_.emplace(folder_ + kInUse);
  Saves::OfProcess().Add(this);
}

CheckpointFiles::~CheckpointFiles() {
  if (rank_ == 0) {
    Saves::OfProcess().Remove(this);
    files_.RemoveFolder(folder_);
    return;
  }
  files_.Remove(IndexPath(PartOf(rank_)));
  files_.Remove(DataPath(PartOf(rank_), 0, 1));
  files_.RemoveEmptyFolder(folder_);  // in case it is on this rank's own disk
}

std::string CheckpointFiles::PartOf(int64_t rank) const {
  return folder_ + "/part-" + std::to_string(rank);
}

void CheckpointFiles::Commit(const std::vector<int64_t>& data_bytes) {
  CheckParts(data_bytes);
  const FolderLock lock(parent_, FolderLock::Mode::kAlone);
  if (Saves::OfProcess().IsOvertaken(*this)) {
    Throw(ErrorCode::kFailedPrecondition, "the checkpoint ", prefix_,
          " is of another save, which began later and has newer rows; save to names of their own "
          "where saves run at the same time");
  }
  Merge(static_cast<int>(data_bytes.size()));
  Saves::OfProcess().Overtake(*this);
  RemoveUnusedData(NameOf(prefix_));
  if (IsLocalPath(parent_)) RemoveAbandoned();
}

void CheckpointFiles::CheckParts(const std::vector<int64_t>& data_bytes) const {
  for (size_t rank = 0; rank < data_bytes.size(); ++rank) {
    const std::string path = DataPath(PartOf(static_cast<int64_t>(rank)), 0, 1);
    if (files_.Exists(path) && files_.Size(path) == data_bytes[rank]) continue;
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
  if (NumShardsOf(files_, prefix_) == num_parts)
    files_.Create(DataPath(PartOf(num_shards++), 0, 1))->Close();
  const std::string index = IndexPath(folder_ + kMerged);
  WriteIndex(folder_ + kMerged, merged, num_shards);
  SyncToDisk(index);
  for (int shard = 0; shard < num_shards; ++shard)
    files_.Rename(DataPath(PartOf(shard), 0, 1), DataPath(prefix_, shard, num_shards));
  SyncToDisk(parent_);
  files_.Rename(index, IndexPath(prefix_));
  SyncToDisk(parent_);
}

/// Removes data files that the index does not refer to, if there is an index.
void CheckpointFiles::RemoveUnusedData(const std::string& name) const {
  const std::string prefix = Joined(parent_, name);
  const int64_t num_shards = NumShardsOf(files_, prefix);
  if (num_shards == 0 && files_.Exists(IndexPath(prefix))) return;
  for (const std::string& file : files_.List(parent_)) {
    const int64_t of = NumShardsIn(file, name);
    if (of != 0 && of != num_shards) files_.Remove(Joined(parent_, file));
  }
}

/// Removes the leftovers of saves that died.
void CheckpointFiles::RemoveAbandoned() const {
  for (const std::string& each : files_.List(parent_)) {
    const auto [name, id] = WhatAndId(each, kTemporary);
    const std::string folder = Joined(parent_, each);
    if (id.empty() || NameOf(folder_) == each || !IsAbandoned(folder, id)) continue;
    RemoveUnusedData(name);
    files_.RemoveFolder(folder);
  }
}

/// Locks are visible on one machine only; leftovers of other machines are judged by age.
bool CheckpointFiles::IsAbandoned(const std::string& folder, const std::string& id) const {
  if (!IsOfThisMachine(id) && !WasWrittenLongBefore(folder, IndexPath(prefix_))) return false;
  sok::RemoveAbandoned(folder + kInUse);
  return !files_.Exists(folder + kInUse);
}

}  // namespace sok
