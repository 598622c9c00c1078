// SPDX-License-Identifier: Apache-2.0
// What differs between the formats of dumps: a table has one file for each column, and a note that
// makes the files a dump.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ops/formats/dumps/stored_type.h"
#include "ops/formats/files/file_system.h"

namespace sok {

/// What a note says of a file.
struct NotedFile {
  int64_t num_bytes = 0;
  uint32_t sum = 0;  // CRC-32C
};

/// A note's content. It is put in place atomically, and has the id under which files may still be
/// found.
struct DumpNote {
  std::string id;                          // of NewSaveId
  std::map<std::string, NotedFile> files;  // by name
  int64_t num_rows = 0, width = 0;         // of SparseOperationKit 1's pair
};

/// A file to write.
struct NewColumn {
  std::string place;   // its path
  std::string header;  // bytes before the array
  StoredType type;
};

/// A file to read: an array behind a header.
struct StoredColumn {
  std::string path;  // now
  int64_t header_bytes = 0;
  StoredType type = StoredType::kFloat32;
  int64_t num_rows = 0, width = 1;
  const NotedFile* noted = nullptr;  // nullptr: no note
};

/// The files of a table as they are now. Its folder is locked.
class FilesNow {
 public:
  /// `note`: nullptr if there is none.
  FilesNow(const FileSystem& files, const DumpNote* note) : files_(files), note_(note) {}

  const FileSystem& files() const { return files_; }
  const DumpNote* note() const { return note_; }
  /// Where the file of a place is: under the name of its dump until that has moved it.
  std::string PathOf(const std::string& place) const;
  /// Whether there is such a file, and the note, if there is one, has it.
  bool Has(const std::string& place) const;

 private:
  const FileSystem& files_;
  const DumpNote* const note_;
};

/// A table's files in one of the formats.
class DumpFormat {
 public:
  virtual ~DumpFormat() = default;

  /// The path of the note.
  virtual std::string note() const = 0;

  /// By column; the rows have `widths`, the first of which is ignored.
  virtual std::vector<NewColumn> NewColumns() const = 0;
  virtual std::string TextOfNote(const DumpNote& note, const std::vector<int64_t>& widths,
                                 int64_t num_rows) const = 0;

  /// Parses a note. Throws kDataLoss.
  virtual DumpNote Parse(const std::string& text) const = 0;
  /// The columns of the files that are there. Throws kNotFound, kDataLoss, kInvalidArgument.
  virtual std::vector<StoredColumn> Columns(const FilesNow& now) const = 0;
};

/// The path of a file until its dump is complete; left behind if the process dies at that moment.
inline std::string TemporaryPath(const std::string& place, const std::string& id) {
  return place + "." + id;
}

/// The id of the note in a file; empty if the file is none.
std::string IdInNote(const FileSystem& files, const std::string& path);

/// Throws kDataLoss, naming file and note, for a file that has another size than noted.
void CheckNotedSize(const std::string& path, int64_t num_bytes, const NotedFile& noted,
                    const std::string& note);

/// Throws kDataLoss for what is no note.
[[noreturn]] void ThrowNoNote(const std::string& path);

/// The folder's record of a dump of several tables whose notes may not all be in place: it stands
/// from the moment that the dump counts until they are.
class DumpRecord {
 public:
  static std::string PathIn(const std::string& folder);
  static std::string TextOf(const std::string& id, const std::vector<std::string>& notes);
  /// The path of a note now. Its folder is locked.
  static std::string NoteNow(const FileSystem& files, const std::string& note);
  /// Puts the notes of a dump that died in place. Nobody else uses the folder.
  static void Finish(const FileSystem& files, const std::string& folder);
};

}  // namespace sok
