// SPDX-License-Identifier: Apache-2.0
#include "ops/base/local_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr time_t kLongSeconds = 3600;

ErrorCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::kNoSpace;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

void ThrowOfSystem(const std::string& path, int error) {
  Throw(CodeOf(error), path, "; ", std::strerror(error));
}

bool IsLocalPath(const std::string& path) { return path.find("://") == std::string::npos; }

NewFile::NewFile(const std::string& path)
    : descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) ThrowOfSystem(path, errno);
  flock(descriptor_, LOCK_EX);
}

NewFile::~NewFile() { close(descriptor_); }

void RemoveAbandoned(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  if (flock(file, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
  close(file);
}

bool WasWrittenLongBefore(const std::string& path, const std::string& written_now) {
  struct stat now{}, state{};
  return stat(written_now.c_str(), &now) == 0 && lstat(path.c_str(), &state) == 0 &&
         state.st_mtime < now.st_mtime - kLongSeconds;
}

void CheckIsFile(const std::string& path) {
  struct stat state{};
  if (stat(path.c_str(), &state) != 0 || S_ISREG(state.st_mode)) return;
  Throw(ErrorCode::kInvalidArgument, path, " is not a file");
}

void SyncToDisk(const std::string& path) {
  if (!IsLocalPath(path)) return;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) ThrowOfSystem(path, errno);
  // Some file systems cannot sync a folder, and do not need to.
  const int error = fsync(file) == 0 || errno == EINVAL ? 0 : errno;
  close(file);
  if (error != 0) ThrowOfSystem(path, error);
}

void BeginSync(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;  // SyncToDisk reports it
  sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
  close(file);
}

FolderLock::FolderLock(const std::string& folder, Mode mode) {
  if (!IsLocalPath(folder)) return;
  descriptor_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) return;  // using the folder gives a better error
  const int how = mode == Mode::kShared ? LOCK_SH : LOCK_EX;
  const int waits = mode == Mode::kAloneIfFree ? LOCK_NB : 0;
  int failed;
  do failed = flock(descriptor_, how | waits);
  while (failed != 0 && errno == EINTR);
  is_locked_ = failed == 0;
}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  flock(descriptor_, LOCK_UN);  // explicitly: a forked child may have it open, too
  close(descriptor_);
}

}  // namespace sok
