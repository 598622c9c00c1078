// SPDX-License-Identifier: Apache-2.0
// Writes a dump of any number of tables into a folder, all or nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/formats/dumps/dump_format.h"
#include "ops/formats/rows.h"

namespace sok {

/// A dump being written, under temporary names, which are removed unless Commit is called. Readers
/// ignore leftovers of a process that died, and a later dump removes them.
///
/// All methods throw the file system's errors: kNotFound, kPermissionDenied, kNoSpace, kIo.
class DumpWriter {
 public:
  /// Creates missing folders, and clears what dumps that died have left in this one.
  DumpWriter(const FileSystem& files, std::string folder);
  ~DumpWriter();
  DumpWriter(const DumpWriter&) = delete;
  DumpWriter& operator=(const DumpWriter&) = delete;

  /// Begins the files of a table, which stand in the folder.
  RowsSink& Add(std::unique_ptr<const DumpFormat> table);

  /// Replaces the tables' earlier dumps atomically, once everything is on the disk. Throws kIo if
  /// another process has changed the files.
  void Commit();

 private:
  class File;
  class Table;

  void CheckPlaces() const;
  void WriteNotes();
  void PutNotesInPlace();
  void PutFilesInPlace() const;
  void Clear(const std::vector<std::string>& replaced_ids) const;
  bool IsPlace(const std::string& name) const;
  std::vector<std::string> Notes() const;

  const FileSystem& files_;
  const std::string folder_;
  const std::string id_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<File>> notes_;
};

}  // namespace sok
