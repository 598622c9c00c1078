// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/dumps/dump_format.h"

#include <sstream>

#include "ops/base/error.h"
#include "ops/base/local_files.h"
#include "ops/formats/files/save_id.h"

namespace sok {
namespace {

constexpr char kRecord[] = "sok_compat-dump-record";

struct Record {
  std::string id;  // empty: there is none
  std::vector<std::string> notes;
};

Record RecordIn(const FileSystem& files, const std::string& folder) {
  const std::string path = DumpRecord::PathIn(folder);
  Record record;
  if (!files.Exists(path)) return record;
  std::istringstream lines(files.ReadWhole(path));
  std::getline(lines, record.id);
  if (!IsSaveId(record.id)) ThrowNoNote(path);
  for (std::string note; std::getline(lines, note);) record.notes.push_back(note);
  return record;
}

}  // namespace

std::string FilesNow::PathOf(const std::string& place) const {
  if (note_ == nullptr) return place;
  const std::string path = TemporaryPath(place, note_->id);
  return files_.Exists(path) ? path : place;
}

bool FilesNow::Has(const std::string& place) const {
  return (note_ == nullptr || note_->files.count(NameOf(place)) > 0) &&
         files_.Exists(PathOf(place));
}

std::string IdInNote(const FileSystem& files, const std::string& path) {
  constexpr int64_t kMostBytes = 1 << 20;
  std::string text;
  try {
    if (IsLocalPath(path)) CheckIsFile(path);
    if (!files.Exists(path) || files.Size(path) > kMostBytes) return "";
    text = files.ReadWhole(path);
  } catch (const Error&) {
    return "";
  }
  std::istringstream words(text);
  std::string title, word, id;
  words >> title >> word >> id;
  const bool is_note = title.rfind("sok_compat-dump-", 0) == 0 && word == "id" && IsSaveId(id);
  return is_note ? id : "";
}

void CheckNotedSize(const std::string& path, int64_t num_bytes, const NotedFile& noted,
                    const std::string& note) {
  if (num_bytes == noted.num_bytes) return;
  Throw(ErrorCode::kDataLoss, path, " is not as it was written: it has ", num_bytes, " bytes, and ",
        note, " says ", noted.num_bytes, "; if it was replaced on purpose, remove ", note);
}

void ThrowNoNote(const std::string& path) {
  Throw(ErrorCode::kDataLoss, path,
        " was not written by a dump; remove it to read the files beside it as they are");
}

std::string DumpRecord::PathIn(const std::string& folder) { return Joined(folder, kRecord); }

std::string DumpRecord::TextOf(const std::string& id, const std::vector<std::string>& notes) {
  std::string text = id + "\n";
  for (const std::string& note : notes) text += NameOf(note) + "\n";
  return text;
}

std::string DumpRecord::NoteNow(const FileSystem& files, const std::string& note) {
  const Record record = RecordIn(files, FolderOf(note));
  const std::string path = TemporaryPath(note, record.id);
  return !record.id.empty() && files.Exists(path) ? path : note;
}

void DumpRecord::Finish(const FileSystem& files, const std::string& folder) {
  const Record record = RecordIn(files, folder);
  if (record.id.empty()) return;
  for (const std::string& name : record.notes) {
    const std::string note = Joined(folder, name);
    const std::string path = TemporaryPath(note, record.id);
    if (files.Exists(path)) files.Rename(path, note);
  }
  SyncToDisk(folder);
  files.Remove(PathIn(folder));
}

}  // namespace sok
