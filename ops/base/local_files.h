// SPDX-License-Identifier: Apache-2.0
// Files of this machine: what TensorFlow's file systems do not offer.
#ifndef SOK_OPS_BASE_LOCAL_FILES_H_
#define SOK_OPS_BASE_LOCAL_FILES_H_

#include <functional>
#include <string>

namespace sok {

/// Whether `path` is on a file system of this machine, and not, as "gs://bucket/file", elsewhere.
bool IsLocalPath(const std::string& path);

/// Makes an empty file where nothing is, also no link, and holds it: while this lives, it is not
/// abandoned. Throws for what the system says.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

 private:
  int descriptor_ = -1;
};

/// Removes a file that a NewFile has made, if no process holds it any more. No NewFile may begin in
/// its folder meanwhile.
void RemoveAbandoned(const std::string& path);

/// RemoveAbandoned for those files in `folder` for whose names is_candidate(name), and that were
/// last written more than an hour before the file at `written_now`: where several machines have the
/// folder, locks may hold on one of them only.
void RemoveLongAbandoned(const std::string& folder, const std::string& written_now,
                         const std::function<bool(const std::string& name)>& is_candidate);

/// Throws kInvalidArgument for what is neither a file nor a link to one, such as a pipe, of which a
/// reader would wait for ever. Nothing at all is fine.
void CheckIsFile(const std::string& path);

/// Returns when a file, or what a folder lists, is on the disk. Throws for what the system says.
void SyncToDisk(const std::string& path);

/// Begins to write to the disk what has been written of a file, and does not wait. SyncToDisk then
/// has less to wait for.
void BeginSync(const std::string& path);

/// Holds a folder against other processes and threads that do the same; a process that dies lets
/// go. Nothing where the file system has no locks, or the folder is elsewhere.
class FolderLock {
 public:
  enum class Mode { kShared, kAlone };
  FolderLock(const std::string& folder, Mode mode);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace sok

#endif  // SOK_OPS_BASE_LOCAL_FILES_H_
