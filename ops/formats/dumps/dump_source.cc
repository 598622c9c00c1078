// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/dumps/dump_source.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "ops/base/error.h"
#include "ops/base/local_files.h"
#include "ops/formats/files/checkpoint_progress.h"
#include "ops/formats/files/crc32c.h"

namespace sok {
namespace {

constexpr int kTries = 20;
constexpr std::chrono::milliseconds kPause(2);
constexpr int64_t kReadBytes = 8 << 20;  // rank 0 has several copies

}  // namespace

/// A file that is read sequentially.
class DumpSource::Column {
 public:
  Column(const FileSystem& files, const StoredColumn& stored)
      : stored_(stored), size_bytes_(files.Size(stored.path)), file_(files.Open(stored.path)) {}

  const StoredColumn& stored() const { return stored_; }
  uint32_t sum() const { return sum_; }
  int64_t next_row() const { return next_row_; }

  void Rewind() { next_ = next_row_ = sum_ = 0; }

  /// Reads the next rows, of keys if it is the column of these.
  void Read(bool of_keys, int64_t count, char* to) {
    if (next_ == 0) {
      std::string header(static_cast<size_t>(stored_.header_bytes), ' ');
      ReadBytes(header.size(), header.data());
    }
    next_row_ += count;
    const int64_t num_values = count * stored_.width;
    const auto num_bytes = static_cast<size_t>(num_values * BytesOf(stored_.type));
    const StoredType memory = of_keys ? StoredType::kInt64 : StoredType::kFloat32;
    if (stored_.type == memory) return ReadBytes(num_bytes, to);
    buffer_.resize(num_bytes);
    ReadBytes(num_bytes, buffer_.data());
    if (of_keys)
      KeysFromStored(stored_.type, num_values, buffer_.data(), reinterpret_cast<int64_t*>(to));
    else
      FloatsFromStored(stored_.type, num_values, buffer_.data(), reinterpret_cast<float*>(to));
  }

 private:
  void ReadBytes(size_t num_bytes, char* to) {
    const size_t num_read = file_->Read(next_, num_bytes, to);
    if (num_read < num_bytes) {
      Throw(ErrorCode::kDataLoss, stored_.path, " ends after ",
            next_ + static_cast<int64_t>(num_read), " bytes; it had ", size_bytes_,
            " when it was opened");
    }
    if (stored_.noted != nullptr) sum_ = Crc32c(sum_, to, num_bytes);
    next_ += static_cast<int64_t>(num_bytes);
  }

  const StoredColumn stored_;
  const int64_t size_bytes_;
  const std::unique_ptr<FileSystem::Reader> file_;
  int64_t next_ = 0, next_row_ = 0;
  uint32_t sum_ = 0;
  std::vector<char> buffer_;
};

DumpSource::DumpSource(const FileSystem& files, const DumpFormat& format)
    : files_(files), format_(format) {
  const FolderLock lock(FolderOf(format.note()), FolderLock::Mode::kShared);
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

DumpSource::~DumpSource() = default;

void DumpSource::Open() {
  columns_.clear();
  note_.reset();
  const std::string path = DumpRecord::NoteNow(files_, format_.note());
  if (IsLocalPath(path)) CheckIsFile(path);
  if (files_.Exists(path)) note_ = format_.Parse(files_.ReadWhole(path));
  const FilesNow now(files_, note_ ? &*note_ : nullptr);
  for (const StoredColumn& column : format_.Columns(now))
    columns_.push_back(std::make_unique<Column>(files_, column));
}

bool DumpSource::HasAnotherNote() const {
  const std::string id = IdInNote(files_, DumpRecord::NoteNow(files_, format_.note()));
  return id != (note_ ? note_->id : "");
}

int64_t DumpSource::num_keys() const { return stored(0).num_rows; }

int64_t DumpSource::width(size_t column) const { return stored(column).width; }

const StoredColumn& DumpSource::stored(size_t column) const { return columns_[column]->stored(); }

void DumpSource::Rewind() {
  for (const auto& column : columns_) column->Rewind();
}

void DumpSource::Read(size_t column, int64_t first, int64_t count, char* to) {
  Column& read = *columns_[column];
  if (first != read.next_row())
    Throw(ErrorCode::kInvalidArgument, read.stored().path, " is read from row ", first,
          " on, but the next one is ", read.next_row());
  read.Read(column == 0, count, to);
  if (read.next_row() == num_keys()) CheckSum(read);
}

void DumpSource::ForEachBlock(const Use& use, const Place&) {
  RowsBlock block;
  int64_t row_bytes = 0;
  for (size_t column = 0; column < num_columns(); ++column) {
    block.row_bytes.push_back(column == 0 ? sizeof(int64_t) : width(column) * sizeof(float));
    row_bytes += block.row_bytes.back();
  }
  const int64_t most = std::min(num_keys(), std::max<int64_t>(1, kReadBytes / row_bytes));
  std::vector<std::vector<char>> data;
  for (const int64_t bytes : block.row_bytes) {
    data.emplace_back(static_cast<size_t>(most * bytes));
    block.data.push_back(data.back().data());
  }
  for (int64_t first = 0; first < num_keys(); first += most) {
    block.count = std::min(most, num_keys() - first);
    for (size_t column = 0; column < num_columns(); ++column)
      Read(column, first, block.count, data[column].data());
    restored_bytes += block.count * row_bytes;
    use(block);
  }
}

void DumpSource::CheckSum(const Column& column) const {
  const NotedFile* noted = column.stored().noted;
  if (noted == nullptr || column.sum() == noted->sum) return;
  const std::string& path = column.stored().path;
  if (HasAnotherNote()) {
    Throw(ErrorCode::kFailedPrecondition, path,
          " was replaced by a later dump while it was read: restore again");
  }
  Throw(ErrorCode::kDataLoss, path, " is not as it was written: its CRC-32C is ", column.sum(),
        ", and ", format_.note(), " says ", noted->sum, "; if it was replaced on purpose, remove ",
        format_.note());
}

}  // namespace sok
