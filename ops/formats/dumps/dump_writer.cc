// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/dumps/dump_writer.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ops/base/error.h"
#include "ops/base/local_files.h"
#include "ops/formats/files/checkpoint_progress.h"
#include "ops/formats/files/crc32c.h"
#include "ops/formats/files/save_id.h"
#include "ops/formats/files/synced_file.h"

namespace sok {

/// A file that is removed on destruction unless it is kept.
class DumpWriter::File {
 public:
  File(const FileSystem& files, const std::string& path) : files_(files), path_(path) {
    if (IsLocalPath(path)) new_file_.emplace(path);
    try {
      file_.emplace(files, path);
    } catch (const Error&) {
      files_.Remove(path);
      throw;
    }
  }
  ~File() {
    file_.reset();
    if (!is_kept_) files_.Remove(path_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void Append(const char* data, size_t num_bytes) {
    file_->Append(data, num_bytes);
    written_ = {file_->num_appended(), Crc32c(written_.sum, data, num_bytes)};
  }
  void Finish() {
    file_->Finish();
    file_.reset();
  }
  NotedFile written() const { return written_; }
  const std::string& path() const { return path_; }
  /// Other machines may use the file system, too; their processes do not see this one's lock.
  void CheckIsThere() const {
    if (files_.Exists(path_) && files_.Size(path_) == written_.num_bytes) return;
    Throw(
        ErrorCode::kIo, path_, " no longer has the ", written_.num_bytes,
        " bytes that were written: another process has changed it. The earlier dump is unchanged; "
        "dump again, or into another folder");
  }
  void Keep() { is_kept_ = true; }

 private:
  const FileSystem& files_;
  const std::string path_;
  bool is_kept_ = false;
  std::optional<NewFile> new_file_;
  std::optional<SyncedFile> file_;
  NotedFile written_;
};

/// The files of one table.
class DumpWriter::Table : public RowsSink {
 public:
  Table(const FileSystem& files, const std::string& id, std::unique_ptr<const DumpFormat> format)
      : format_(std::move(format)), columns_(format_->NewColumns()), widths_(columns_.size(), 1) {
    for (const NewColumn& column : columns_) {
      files_.push_back(std::make_unique<File>(files, TemporaryPath(column.place, id)));
      files_.back()->Append(column.header.data(), column.header.size());
    }
  }

  void Begin(size_t column, int64_t width) override {
    column_ = column;
    widths_[column] = width;
  }
  char* Buffer(size_t num_bytes) override {
    buffer_.resize(num_bytes);
    return buffer_.data();
  }
  void Append(size_t num_bytes) override {
    saved_bytes += static_cast<int64_t>(num_bytes);
    if (column_ > 0) return files_[column_]->Append(buffer_.data(), num_bytes);
    const auto count = static_cast<int64_t>(num_bytes / sizeof(int64_t));
    num_rows_ += count;
    const StoredType type = columns_[0].type;
    stored_.resize(static_cast<size_t>(count * BytesOf(type)));
    KeysToStored(type, count, reinterpret_cast<const int64_t*>(buffer_.data()), stored_.data());
    files_[0]->Append(stored_.data(), stored_.size());
  }
  void End() override {}

  std::string Note(const std::string& id) const {
    DumpNote note{id, {}};
    for (size_t i = 0; i < columns_.size(); ++i)
      note.files[NameOf(columns_[i].place)] = files_[i]->written();
    return format_->TextOfNote(note, widths_, num_rows_);
  }
  const DumpFormat& format() const { return *format_; }
  const std::vector<NewColumn>& columns() const { return columns_; }
  const std::vector<std::unique_ptr<File>>& files() const { return files_; }

 private:
  const std::unique_ptr<const DumpFormat> format_;
  const std::vector<NewColumn> columns_;
  std::vector<std::unique_ptr<File>> files_;  // by column
  std::vector<int64_t> widths_;               // by column
  size_t column_ = 0;
  int64_t num_rows_ = 0;
  std::vector<char> buffer_, stored_;
};

DumpWriter::DumpWriter(const FileSystem& files, std::string folder)
    : files_(files), folder_(std::move(folder)), id_(NewSaveId()) {
  files_.MakeFolder(folder_);
  const FolderLock lock(folder_, FolderLock::Mode::kAloneIfFree);
  if (lock.is_locked()) Clear({});
}

DumpWriter::~DumpWriter() = default;

RowsSink& DumpWriter::Add(std::unique_ptr<const DumpFormat> table) {
  const FolderLock lock(folder_, FolderLock::Mode::kShared);
  tables_.push_back(std::make_unique<Table>(files_, id_, std::move(table)));
  CheckPlaces();
  return *tables_.back();
}

void DumpWriter::CheckPlaces() const {
  if (!IsLocalPath(folder_)) return;  // others have no folders, or derive them from names
  const auto check = [&](const std::string& place) {
    if (files_.IsFolder(place))
      Throw(ErrorCode::kIo, place, " is a folder, but a file of the dump needs this name");
  };
  for (const auto& table : tables_) {
    for (const NewColumn& column : table->columns()) check(column.place);
    check(table->format().note());
  }
}

void DumpWriter::Commit() {
  for (const auto& table : tables_) {
    for (const auto& file : table->files()) file->Finish();
  }
  const FolderLock lock(folder_, FolderLock::Mode::kAlone);
  CheckPlaces();
  WriteNotes();
  std::vector<std::string> replaced_ids;
  for (const std::string& note : Notes()) replaced_ids.push_back(IdInNote(files_, note));
  for (const auto& table : tables_) {
    for (const auto& file : table->files()) file->CheckIsThere();
  }
  // From here on a note may be in place, even if an error is reported; the dump then needs its
  // files, so they are kept. The next dump removes leftovers.
  for (const auto& note : notes_) note->Keep();
  for (const auto& table : tables_) {
    for (const auto& file : table->files()) file->Keep();
  }
  PutNotesInPlace();
  PutFilesInPlace();
  if (IsLocalPath(folder_)) Clear(replaced_ids);
}

std::vector<std::string> DumpWriter::Notes() const {
  std::vector<std::string> notes;
  for (const auto& table : tables_) notes.push_back(table->format().note());
  return notes;
}

/// Writes the notes, and of several tables the record, under temporary names.
void DumpWriter::WriteNotes() {
  const auto write = [&](const std::string& place, const std::string& text) {
    notes_.push_back(std::make_unique<File>(files_, TemporaryPath(place, id_)));
    notes_.back()->Append(text.data(), text.size());
    notes_.back()->Finish();
  };
  for (const auto& table : tables_) write(table->format().note(), table->Note(id_));
  if (tables_.size() > 1) write(DumpRecord::PathIn(folder_), DumpRecord::TextOf(id_, Notes()));
  SyncToDisk(folder_);
}

/// With the first rename the dump counts.
void DumpWriter::PutNotesInPlace() {
  DumpRecord::Finish(files_, folder_);
  if (tables_.size() > 1) {
    files_.Rename(notes_.back()->path(), DumpRecord::PathIn(folder_));
    SyncToDisk(folder_);
    return DumpRecord::Finish(files_, folder_);
  }
  files_.Rename(notes_[0]->path(), tables_[0]->format().note());
  SyncToDisk(folder_);
}

/// Without locks, a later dump may have taken the place and removed this one's files.
void DumpWriter::PutFilesInPlace() const {
  for (const auto& table : tables_) {
    const auto is_in_place = [&] { return IdInNote(files_, table->format().note()) == id_; };
    for (size_t i = 0; i < table->columns().size(); ++i) {
      const std::string& path = table->files()[i]->path();
      if (!is_in_place()) {
        files_.Remove(path);
        continue;
      }
      try {
        files_.Rename(path, table->columns()[i].place);
      } catch (const Error&) {
        if (is_in_place()) throw;
      }
    }
  }
  SyncToDisk(folder_);
}

bool DumpWriter::IsPlace(const std::string& name) const {
  for (const auto& table : tables_) {
    if (NameOf(table->format().note()) == name) return true;
    for (const NewColumn& column : table->columns()) {
      if (NameOf(column.place) == name) return true;
    }
  }
  return false;
}

/// Removes what dumps that died have left: at once what this machine wrote and holds no more, or
/// what this dump has replaced; after an hour other leftovers at this dump's places, as locks of
/// other machines cannot be seen. Finishes dumps that count, but have not moved all their files.
void DumpWriter::Clear(const std::vector<std::string>& replaced_ids) const {
  static constexpr char kMark[] = ".";
  DumpRecord::Finish(files_, folder_);
  const std::vector<std::string> names = files_.List(folder_);
  const bool has_leftovers = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return !WhatAndId(name, kMark).second.empty();
  });
  if (!has_leftovers) return;
  std::set<std::string> ids;  // of dumps that count
  for (const std::string& name : names) {
    const bool may_be_note = name.size() > 5 && (name.compare(name.size() - 5, 5, ".dump") == 0 ||
                                                 name.compare(name.size() - 5, 5, "-note") == 0);
    if (may_be_note) ids.insert(IdInNote(files_, Joined(folder_, name)));
  }
  for (const std::string& name : names) {
    const auto [place, id] = WhatAndId(name, kMark);
    if (id.empty()) continue;
    const std::string path = Joined(folder_, name);
    if (ids.count(id) > 0) {
      files_.Rename(path, Joined(folder_, place));
    } else if (IsOfThisMachine(id) ||
               std::count(replaced_ids.begin(), replaced_ids.end(), id) > 0 ||
               (IsPlace(place) && WasWrittenLongBefore(path, tables_[0]->format().note()))) {
      RemoveAbandoned(path);
    }
  }
}

}  // namespace sok
