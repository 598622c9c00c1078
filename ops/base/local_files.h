// SPDX-License-Identifier: Apache-2.0
// Files of this machine: locks, syncs and checks that TensorFlow's file systems lack.
#pragma once

#include <string>

namespace sok {

/// Throws the error `error`, an errno, of the system about a path.
[[noreturn]] void ThrowOfSystem(const std::string& path, int error);

/// Whether `path` is on a file system of this machine, unlike "gs://bucket/file".
bool IsLocalPath(const std::string& path);

/// Creates an empty file and locks it while this object lives, which marks the file as not
/// abandoned. Throws if anything exists at the path, even a link, or the system refuses.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

 private:
  int descriptor_ = -1;
};

/// Removes a file created by NewFile if no process holds it any more. No NewFile may be created in
/// its folder meanwhile.
void RemoveAbandoned(const std::string& path);

/// Whether a file or folder was last written more than an hour before the file at `written_now`: if
/// several machines share a folder, a lock may be visible on one of them only.
bool WasWrittenLongBefore(const std::string& path, const std::string& written_now);

/// Throws kInvalidArgument if `path` is neither a regular file nor a link to one: reading from a
/// pipe, for instance, would never return. A path that does not exist is fine.
void CheckIsFile(const std::string& path);

/// Returns once a file, or the list of names in a folder, is on the disk; at once for a path that
/// is not local. Throws the system's error.
void SyncToDisk(const std::string& path);

/// Starts writing a file's dirty pages to the disk, without waiting, to shorten a later SyncToDisk.
void BeginSync(const std::string& path);

/// Locks a folder against other processes and threads that do the same; the lock ends with the
/// process. Does nothing if the file system has no locks or is not of this machine, nor, with
/// kAloneIfFree, if another holds the lock.
class FolderLock {
 public:
  enum class Mode { kShared, kAlone, kAloneIfFree };
  FolderLock(const std::string& folder, Mode mode);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool is_locked() const { return is_locked_; }

 private:
  int descriptor_ = -1;
  bool is_locked_ = false;
};

}  // namespace sok
