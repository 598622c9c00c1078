// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/dump/dump_reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>

#include "ops/base/error.h"
#include "ops/base/local_files.h"
#include "ops/tf/base/file_errors.h"
#include "ops/tf/base/tf_versions.h"
#include "tensorflow/core/lib/hash/crc32c.h"

namespace sok {
namespace {

namespace tf = tensorflow;

constexpr int kTries = 20;
constexpr std::chrono::milliseconds kPause(2);

}  // namespace

/// Read sequentially.
class DumpReader::File {
 public:
  /// The file of the dump `id` if it was not put in place yet; otherwise the one in place.
  File(tf::Env* env, const std::string& place, const std::optional<DumpNote>& note) : path_(place) {
    if (note && env->FileExists(DumpPlaces::TemporaryPath(place, note->id)).ok())
      path_ = DumpPlaces::TemporaryPath(place, note->id);
    if (IsLocalPath(path_)) CheckIsFile(path_);
    uint64_t size_bytes = 0;
    ThrowOfFile(env->GetFileSize(path_, &size_bytes), path_);
    size_bytes_ = static_cast<int64_t>(size_bytes);
    ThrowOfFile(env->NewRandomAccessFile(path_, &file_), path_);
  }

  const std::string& path() const { return path_; }
  int64_t size_bytes() const { return size_bytes_; }

  void Read(int64_t count_bytes, void* out) {
    absl::string_view read;
    const auto count = static_cast<size_t>(count_bytes);
    const absl::Status status = ReadAt(*file_, static_cast<uint64_t>(next_),
                                       absl::MakeSpan(static_cast<char*>(out), count), &read);
    if (absl::IsOutOfRange(status)) {
      Throw(ErrorCode::kDataLoss, path_, " ends after ", next_ + static_cast<int64_t>(read.size()),
            " bytes; it had ", size_bytes_, " when it was opened");
    }
    ThrowOfFile(status, path_);
    if (read.data() != out) std::memcpy(out, read.data(), read.size());
    sum_ = tf::crc32c::Extend(sum_, static_cast<const char*>(out), count);
    next_ += count_bytes;
  }
  void CheckSize(int64_t expected, const std::string& note) const {
    if (size_bytes_ == expected) return;
    Throw(ErrorCode::kDataLoss, path_, " is not as it was written: it has ", size_bytes_,
          " bytes, and ", note, " says ", expected, "; if it was replaced on purpose, remove ",
          note);
  }
  /// The CRC-32C of the bytes read.
  uint32_t sum() const { return sum_; }

 private:
  std::string path_;
  int64_t size_bytes_ = 0;
  std::unique_ptr<tf::RandomAccessFile> file_;
  int64_t next_ = 0;
  uint32_t sum_ = 0;
};

DumpReader::DumpReader(tf::Env* env, const DumpPlaces& places, int64_t dim)
    : env_(env), places_(places), dim_(dim) {
  const FolderLock lock(places_.folder(), FolderLock::Mode::kShared);
  // On file systems without locks, a dump may be written meanwhile.
  for (int tries_left = kTries - 1;; --tries_left) {
    try {
      Open();
      if (tries_left == 0 || !HasAnotherNote()) return;
    } catch (const Error& error) {
      const bool may_be_moving = note_ && error.code() == ErrorCode::kNotFound;
      if (tries_left == 0 || (!may_be_moving && !HasAnotherNote())) throw;
    }
    std::this_thread::sleep_for(kPause);
  }
}

void DumpReader::Open() {
  note_ = DumpNote::Read(env_, places_.note());
  if (!note_) places_.CheckAreThere(env_);
  keys_ = std::make_shared<File>(env_, places_.keys(), note_);
  rows_ = std::make_shared<File>(env_, places_.rows(), note_);
  note_ ? FollowNote() : MeasureFiles();
}

bool DumpReader::HasAnotherNote() const {
  try {
    const std::optional<DumpNote> now = DumpNote::Read(env_, places_.note());
    return (now ? now->id : "") != (note_ ? note_->id : "");
  } catch (const Error&) {
    return false;
  }
}

void DumpReader::CheckSum(const File& file, uint32_t expected) const {
  if (file.sum() == expected) return;
  if (HasAnotherNote()) {
    Throw(ErrorCode::kFailedPrecondition, file.path(),
          " was replaced by a later dump while it was read: restore again");
  }
  Throw(ErrorCode::kDataLoss, file.path(), " is not as it was written: its CRC-32C is ", file.sum(),
        ", and ", places_.note(), " says ", expected, "; if it was replaced on purpose, remove ",
        places_.note());
}

std::string DumpReader::Signature() const {
  std::ostringstream text;
  text << num_keys_ << " keys with the CRC-32C " << keys_->sum() << ", their rows with "
       << rows_->sum();
  return text.str();
}

void DumpReader::FollowNote() {
  if (note_->dim != dim_) {
    Throw(ErrorCode::kInvalidArgument, places_.rows(), " holds rows of ", note_->dim,
          " floats, but the table's have ", dim_, " (embedding_vec_size)");
  }
  num_keys_ = note_->num_keys;
  key_bytes_ = note_->key_bytes;
  keys_->CheckSize(num_keys_ * key_bytes_, places_.note());
  rows_->CheckSize(num_keys_ * dim_ * static_cast<int64_t>(sizeof(float)), places_.note());
}

void DumpReader::MeasureFiles() {
  const int64_t row_bytes = dim_ * static_cast<int64_t>(sizeof(float));
  num_keys_ = rows_->size_bytes() / row_bytes;
  key_bytes_ = num_keys_ == 0 ? int64_t{sizeof(int64_t)} : keys_->size_bytes() / num_keys_;
  const bool fits = rows_->size_bytes() == num_keys_ * row_bytes &&
                    keys_->size_bytes() == num_keys_ * key_bytes_ &&
                    (key_bytes_ == sizeof(int64_t) || key_bytes_ == sizeof(uint32_t));
  if (fits) return;
  Throw(ErrorCode::kInvalidArgument, keys_->path(), " has ", keys_->size_bytes(), " bytes and ",
        rows_->path(), " has ", rows_->size_bytes(),
        ": not one key of 8 or 4 bytes for each row of ", dim_, " floats (", row_bytes,
        " bytes); were they written for another embedding_vec_size?");
}

std::vector<int64_t> DumpReader::ReadKeys() {
  std::vector<int64_t> keys(static_cast<size_t>(num_keys_));
  if (key_bytes_ == sizeof(int64_t)) {
    keys_->Read(num_keys_ * key_bytes_, keys.data());
  } else {
    std::vector<uint32_t> narrow(keys.size());
    keys_->Read(num_keys_ * key_bytes_, narrow.data());
    std::copy(narrow.begin(), narrow.end(), keys.begin());
  }
  if (note_) CheckSum(*keys_, note_->keys_sum);
  return keys;
}

void DumpReader::ForEachChunk(
    int64_t chunk_rows,
    const std::function<void(int64_t first, int64_t count, const float* rows)>& use) {
  std::vector<float> rows;
  for (int64_t first = 0; first < num_keys_; first += chunk_rows) {
    const int64_t count = std::min(chunk_rows, num_keys_ - first);
    rows.resize(static_cast<size_t>(count * dim_));
    rows_->Read(count * dim_ * static_cast<int64_t>(sizeof(float)), rows.data());
    use(first, count, rows.data());
  }
  if (note_) CheckSum(*rows_, note_->rows_sum);
}

}  // namespace sok
