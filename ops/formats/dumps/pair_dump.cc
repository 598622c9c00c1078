// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/dumps/pair_dump.h"

#include <array>
#include <filesystem>
#include <sstream>

#include "ops/base/error.h"
#include "ops/base/local_files.h"
#include "ops/formats/files/save_id.h"

namespace sok {
namespace {

constexpr char kTitle[] = "sok_compat-dump-1";
constexpr char kEndOfKeys[] = "_keys.file";
constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

bool LeadsOut(const std::string& name) {
  if (name.empty() || name.front() == '/') return true;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '/');) {
    if (part == "..") return true;
  }
  return false;
}

std::string StemOf(const std::string& folder, const std::string& name) {
  if (LeadsOut(name)) {
    Throw(ErrorCode::kInvalidArgument, "a table's name, '", name,
          "', is part of its files' names: it must not be empty, begin with '/', or contain '..'");
  }
  const std::string stem = Joined(folder, name);
  return IsLocalPath(stem) ? std::filesystem::path(stem).lexically_normal().string() : stem;
}

/// Names of tables whose keys are in a folder or its sub-folders; limited if there are many.
std::vector<std::string> TablesIn(const FileSystem& files, const std::string& root) {
  constexpr size_t kMost = 20;
  const std::string end = kEndOfKeys;
  std::vector<std::string> names;
  const auto add = [&](const std::string& file) {
    const bool is_table =
        file.size() > end.size() && file.compare(file.size() - end.size(), end.size(), end) == 0;
    if (is_table && names.size() < kMost) names.push_back(file.substr(0, file.size() - end.size()));
  };
  for (const std::string& entry : files.List(root)) {
    add(entry);
    if (!files.IsFolder(Joined(root, entry))) continue;
    for (const std::string& file : files.List(Joined(root, entry))) add(Joined(entry, file));
  }
  return names;
}

}  // namespace

PairDump::PairDump(const std::string& folder, const std::string& name, StoredType key_type,
                   int64_t dim)
    : folder_(folder), name_(name), stem_(StemOf(folder, name)), key_type_(key_type), dim_(dim) {}

std::vector<NewColumn> PairDump::NewColumns() const {
  return {{keys(), "", key_type_}, {rows(), "", StoredType::kFloat32}};
}

std::string PairDump::TextOfNote(const DumpNote& note, const std::vector<int64_t>& widths,
                                 int64_t num_rows) const {
  std::ostringstream text;
  text << kTitle << "\nid " << note.id << "\nkeys " << num_rows << " of " << BytesOf(key_type_)
       << " bytes, CRC-32C " << note.files.at(NameOf(keys())).sum << "\nrows of " << widths[1]
       << " float32, CRC-32C " << note.files.at(NameOf(rows())).sum << "\nend\n";
  return text.str();
}

DumpNote PairDump::Parse(const std::string& text) const {
  std::istringstream words(text);
  std::string title, end, word, id;
  int64_t num_keys = -1, key_bytes = 0, dim = 0;
  NotedFile of_keys, of_rows;
  const auto skip = [&](int count) {
    for (; count > 0; --count) words >> word;
  };
  words >> title >> word >> id >> word >> num_keys >> word >> key_bytes;
  skip(2);
  words >> of_keys.sum;
  skip(2);
  words >> dim;
  skip(2);
  words >> of_rows.sum >> end;
  constexpr int64_t kMost = int64_t{1} << 48;  // bytes of a file
  const bool is_sound = title == kTitle && end == "end" && IsSaveId(id) && num_keys >= 0 &&
                        (key_bytes == 8 || key_bytes == 4) && dim >= 1 && dim <= kMost &&
                        num_keys <= kMost / (kFloatBytes * dim);
  if (!is_sound) ThrowNoNote(note());
  of_keys.num_bytes = num_keys * key_bytes;
  of_rows.num_bytes = num_keys * dim * kFloatBytes;
  const PairDump as_noted(folder_, name_, key_bytes == 8 ? StoredType::kInt64 : StoredType::kUint32,
                          dim);
  const DumpNote found{id, {{NameOf(keys()), of_keys}, {NameOf(rows()), of_rows}}, num_keys, dim};
  if (as_noted.TextOfNote(found, {1, dim}, num_keys) != text) ThrowNoNote(note());
  return found;
}

void PairDump::CheckAreThere(const FileSystem& files) const {
  if (files.Exists(keys())) return;
  const std::vector<std::string> names = TablesIn(files, folder_);
  if (names.empty()) files.Size(keys());  // says what is missing
  std::string listed;
  for (const std::string& other : names) listed += (listed.empty() ? "" : ", ") + other;
  Throw(ErrorCode::kNotFound, "no table ", name_, " in ", folder_, ", where ", keys(),
        " is missing; the folder has ", listed, ". Restore under one of these names");
}

std::vector<StoredColumn> PairDump::Columns(const FilesNow& now) const {
  if (now.note() == nullptr) CheckAreThere(now.files());
  std::vector<StoredColumn> columns;
  for (const std::string& place : {keys(), rows()}) {
    columns.emplace_back();
    columns.back().path = now.PathOf(place);
    if (IsLocalPath(place)) CheckIsFile(columns.back().path);
  }
  const std::array<int64_t, 2> sizes{now.files().Size(columns[0].path),
                                     now.files().Size(columns[1].path)};
  if (now.note() != nullptr) return Noted(std::move(columns), sizes, *now.note());
  return Measured(std::move(columns), sizes);
}

std::vector<StoredColumn> PairDump::Noted(std::vector<StoredColumn> columns,
                                          const std::array<int64_t, 2>& sizes,
                                          const DumpNote& note) const {
  if (dim_ != 0 && note.width != dim_) {
    Throw(ErrorCode::kInvalidArgument, rows(), " holds rows of ", note.width,
          " floats, but the table's have ", dim_, " (embedding_vec_size)");
  }
  const bool are_wide =
      note.files.at(NameOf(keys())).num_bytes != note.num_rows * BytesOf(StoredType::kUint32);
  columns[0].type = are_wide || note.num_rows == 0 ? StoredType::kInt64 : StoredType::kUint32;
  columns[1].width = note.width;
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].num_rows = note.num_rows;
    columns[i].noted = &note.files.at(NameOf(i == 0 ? keys() : rows()));
    CheckNotedSize(columns[i].path, sizes[i], *columns[i].noted, this->note());
  }
  return columns;
}

/// By the sizes alone: of keys for rows of a known dim, or of rows for keys of a known dtype.
std::vector<StoredColumn> PairDump::Measured(std::vector<StoredColumn> columns,
                                             const std::array<int64_t, 2>& sizes) const {
  const auto [key_file_bytes, row_file_bytes] = sizes;
  int64_t dim = dim_, key_bytes = BytesOf(key_type_), num_keys = 0;
  if (dim_ > 0) {
    num_keys = row_file_bytes / (dim * kFloatBytes);
    key_bytes = num_keys == 0 ? key_bytes : key_file_bytes / num_keys;
  } else {
    num_keys = key_file_bytes / key_bytes;
    dim = num_keys == 0 ? 1 : row_file_bytes / (num_keys * kFloatBytes);
  }
  const bool fits = (key_bytes == 8 || key_bytes == 4) && dim > 0 &&
                    key_file_bytes == num_keys * key_bytes &&
                    row_file_bytes == num_keys * dim * kFloatBytes;
  if (!fits) {
    const std::string& said = columns[0].path + " has " + std::to_string(key_file_bytes) +
                              " bytes and " + columns[1].path + " has " +
                              std::to_string(row_file_bytes);
    if (dim_ > 0) {
      Throw(ErrorCode::kInvalidArgument, said, ": not one key of 8 or 4 bytes for each row of ",
            dim_, " floats (", dim_ * kFloatBytes,
            " bytes); were they written for another embedding_vec_size?");
    }
    Throw(ErrorCode::kInvalidArgument, said, ": not a row of float32 for each key of ", key_bytes,
          " bytes; no note beside them says what they are (--key-dtype uint32 takes keys of 4 "
          "bytes)");
  }
  columns[0].type = key_bytes == 8 ? StoredType::kInt64 : StoredType::kUint32;
  columns[1].width = dim;
  for (StoredColumn& column : columns) column.num_rows = num_keys;
  return columns;
}

}  // namespace sok
