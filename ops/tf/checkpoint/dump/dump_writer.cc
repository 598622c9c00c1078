// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/dump/dump_writer.h"

#include <iomanip>
#include <optional>
#include <random>
#include <sstream>

#include "ops/base/error.h"
#include "ops/base/local_files.h"
#include "ops/tf/base/file_errors.h"
#include "tensorflow/core/lib/hash/crc32c.h"

namespace sok {
namespace {

namespace tf = tensorflow;

constexpr size_t kBufferBytes = 1 << 20;

/// Unique among all dumps, including those of processes started at the same instant.
std::string NewId() {
  std::random_device random;
  std::ostringstream id;
  id << std::hex << std::setfill('0');
  for (size_t digits = 0; digits < DumpNote::kIdDigits; digits += 8) id << std::setw(8) << random();
  return id.str();
}

}  // namespace

/// A file that is removed on destruction unless it is kept.
class DumpWriter::File {
 public:
  File(tf::Env* env, std::string path) : env_(env), path_(std::move(path)) {
    if (IsLocalPath(path_)) new_file_.emplace(path_);
    const absl::Status opened = env_->NewWritableFile(path_, &file_);
    if (!opened.ok()) Remove();
    ThrowOfFile(opened, path_);
  }
  ~File() {
    file_.reset();
    if (!path_.empty()) Remove();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void Append(const void* data, size_t size_bytes) {
    buffer_.append(static_cast<const char*>(data), size_bytes);
    if (buffer_.size() >= kBufferBytes) Flush();
  }
  /// Returns the checksum of the contents.
  uint32_t Finish() {
    Flush();
    ThrowOfFile(file_->Close(), path_);
    file_.reset();
    SyncToDisk(path_);
    return sum_;
  }
  /// Other machines may use the file system, too; their processes do not see this one's lock.
  void CheckIsThere() const {
    uint64_t size_bytes = 0;
    const absl::Status status = env_->GetFileSize(path_, &size_bytes);
    if (status.ok() && static_cast<int64_t>(size_bytes) == size_bytes_) return;
    Throw(
        ErrorCode::kIo, path_, " no longer has the ", size_bytes_,
        " bytes that were written: another process has changed it. The earlier dump is unchanged; "
        "dump again, or into another folder");
  }
  void MoveTo(const std::string& place) {
    ThrowOfFile(env_->RenameFile(path_, place), place);
    path_.clear();
  }
  void Keep() { path_.clear(); }

 private:
  void Flush() {
    sum_ = tf::crc32c::Extend(sum_, buffer_.data(), buffer_.size());
    ThrowOfFile(file_->Append(buffer_), path_);
    size_bytes_ += static_cast<int64_t>(buffer_.size());
    buffer_.clear();
  }
  void Remove() { env_->DeleteFile(path_).IgnoreError(); }

  tf::Env* const env_;
  std::string path_;  // empty once kept
  std::optional<NewFile> new_file_;
  std::unique_ptr<tf::WritableFile> file_;
  std::string buffer_;
  int64_t size_bytes_ = 0;
  uint32_t sum_ = 0;
};

DumpWriter::DumpWriter(tf::Env* env, const DumpPlaces& places, int64_t key_bytes, int64_t dim)
    : env_(env), places_(places) {
  note_.id = NewId();
  note_.key_bytes = key_bytes;
  note_.dim = dim;
  const std::string folder = places_.folder();
  ThrowOfFile(env_->RecursivelyCreateDir(folder), folder);
  CheckPlaces();
  const FolderLock lock(folder, FolderLock::Mode::kShared);
  keys_ = std::make_unique<File>(env_, DumpPlaces::TemporaryPath(places_.keys(), note_.id));
  rows_ = std::make_unique<File>(env_, DumpPlaces::TemporaryPath(places_.rows(), note_.id));
}

DumpWriter::~DumpWriter() = default;

void DumpWriter::CheckPlaces() const {
  if (!IsLocalPath(places_.folder())) return;  // others have no folders, or derive them from names
  for (const std::string& place : {places_.keys(), places_.rows(), places_.note()}) {
    if (env_->IsDirectory(place).ok())
      Throw(ErrorCode::kIo, place, " is a folder, but a file of the dump needs this name");
  }
}

void DumpWriter::Append(int64_t key, const char* row) {
  keys_->Append(&key, static_cast<size_t>(note_.key_bytes));  // the low bytes: little-endian
  rows_->Append(row, static_cast<size_t>(note_.dim) * sizeof(float));
  ++note_.num_keys;
}

void DumpWriter::Commit() {
  note_.keys_sum = keys_->Finish();
  note_.rows_sum = rows_->Finish();
  const std::string folder = places_.folder();
  const FolderLock lock(folder, FolderLock::Mode::kAlone);
  File note(env_, DumpPlaces::TemporaryPath(places_.note(), note_.id));
  const std::string text = note_.ToText();
  note.Append(text.data(), text.size());
  note.Finish();
  CheckPlaces();
  SyncToDisk(folder);
  const std::string earlier_id = IdInPlace();
  keys_->CheckIsThere();
  rows_->CheckIsThere();
  // From here on the note may be in place, even if an error is reported; the dump then needs its
  // files, so they are kept. The next dump removes leftovers.
  keys_->Keep();
  rows_->Keep();
  note.MoveTo(places_.note());
  SyncToDisk(folder);
  PutInPlace(places_.keys());
  PutInPlace(places_.rows());
  SyncToDisk(folder);
  if (IsLocalPath(folder)) RemoveLeftovers(earlier_id);
}

/// The id of the dump in place; empty if there is none, or its note is unreadable.
std::string DumpWriter::IdInPlace() const {
  try {
    const std::optional<DumpNote> note = DumpNote::Read(env_, places_.note());
    return note ? note->id : "";
  } catch (const Error&) {
    return "";
  }
}

/// Without locks, a later dump may have taken the place and removed this file.
void DumpWriter::PutInPlace(const std::string& place) const {
  const std::string path = DumpPlaces::TemporaryPath(place, note_.id);
  if (IdInPlace() != note_.id) {
    env_->DeleteFile(path).IgnoreError();
    return;
  }
  const absl::Status moved = env_->RenameFile(path, place);
  if (!moved.ok() && IdInPlace() == note_.id) ThrowOfFile(moved, place);
}

void DumpWriter::RemoveLeftovers(const std::string& earlier_id) const {
  if (!earlier_id.empty()) {
    for (const std::string& place : {places_.keys(), places_.rows()})
      RemoveAbandoned(DumpPlaces::TemporaryPath(place, earlier_id));
  }
  RemoveLongAbandoned(places_.folder(), places_.note(),
                      [&](const std::string& name) { return places_.IsTemporary(name); });
}

}  // namespace sok
