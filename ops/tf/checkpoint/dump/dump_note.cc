// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/dump/dump_note.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "ops/base/error.h"
#include "ops/base/local_files.h"
#include "ops/tf/base/file_errors.h"
#include "tensorflow/core/platform/path.h"

namespace sok {
namespace {

namespace tf = tensorflow;

constexpr char kTitle[] = "sok_compat-dump-1";

/// Cleans a path of this machine as its file system does; leaves others as they are.
std::string CleanFolder(const std::string& folder) {
  static const std::string kIsEmpty =
      "the folder of a table's files is empty; '.' is the current one";
  absl::string_view scheme, host, path;
  tf::io::ParseURI(folder, &scheme, &host, &path);
  if (!scheme.empty() && scheme != "file") return folder;
  if (!host.empty() && host != "localhost") {
    Throw(ErrorCode::kInvalidArgument, folder, " is a path of the host '", std::string(host),
          "'; write a folder of this machine as file:///folder");
  }
  if (path.empty()) Throw(ErrorCode::kInvalidArgument, kIsEmpty);
  return tf::io::CleanPath(path);
}

bool LeadsOut(const std::string& name) {
  if (name.empty() || name.front() == '/') return true;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '/');) {
    if (part == "..") return true;
  }
  return false;
}

/// Names of tables whose keys are in a folder or its sub-folders; limited if there are many.
std::vector<std::string> TablesIn(tf::Env* env, const std::string& root) {
  static constexpr size_t kMost = 20;
  static const std::string kSuffix = "_keys.file";
  std::vector<std::string> names, entries;
  if (!env->GetChildren(root, &entries).ok()) return names;
  std::sort(entries.begin(), entries.end());
  const auto add = [&](const std::string& file) {
    const bool is_table = file.size() > kSuffix.size() &&
                          file.compare(file.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
    if (is_table && names.size() < kMost)
      names.push_back(file.substr(0, file.size() - kSuffix.size()));
  };
  for (const std::string& entry : entries) {
    std::vector<std::string> inner;
    add(entry);
    if (!env->IsDirectory(tf::io::JoinPath(root, entry)).ok()) continue;
    if (!env->GetChildren(tf::io::JoinPath(root, entry), &inner).ok()) continue;
    std::sort(inner.begin(), inner.end());
    for (const std::string& file : inner) add(tf::io::JoinPath(entry, file));
  }
  return names;
}

}  // namespace

DumpPlaces::DumpPlaces(const std::string& folder, const std::string& name)
    : root_(CleanFolder(folder)), name_(name) {
  if (LeadsOut(name)) {
    Throw(ErrorCode::kInvalidArgument, "a table's name, '", name,
          "', is part of its files' names: it must not be empty, begin with '/', or contain '..'");
  }
  stem_ = tf::io::JoinPath(root_, name);
  if (IsLocalPath(stem_)) stem_ = tf::io::CleanPath(stem_);
}

void DumpPlaces::CheckAreThere(tf::Env* env) const {
  if (env->FileExists(keys()).ok()) return;
  const std::vector<std::string> names = TablesIn(env, root_);
  if (names.empty()) ThrowOfFile(env->FileExists(keys()), keys());
  std::string listed;
  for (const std::string& other : names) listed += (listed.empty() ? "" : ", ") + other;
  Throw(ErrorCode::kNotFound, "no table ", name_, " in ", root_, ", where ", keys(),
        " is missing; the folder has ", listed, ". Restore under one of these names");
}

std::string DumpPlaces::folder() const {
  const std::string folder(tf::io::Dirname(stem_));
  return folder.empty() ? "." : folder;
}

bool DumpPlaces::IsTemporary(const std::string& file_name) const {
  const size_t dot = file_name.rfind('.');
  if (dot == std::string::npos || file_name.size() - dot - 1 != DumpNote::kIdDigits ||
      file_name.find_first_not_of("0123456789abcdef", dot + 1) != std::string::npos)
    return false;
  const std::string place = file_name.substr(0, dot);
  return place == tf::io::Basename(keys()) || place == tf::io::Basename(rows()) ||
         place == tf::io::Basename(note());
}

std::string DumpNote::ToText() const {
  std::ostringstream text;
  text << kTitle << "\nid " << id << "\nkeys " << num_keys << " of " << key_bytes
       << " bytes, CRC-32C " << keys_sum << "\nrows of " << dim << " float32, CRC-32C " << rows_sum
       << "\nend\n";
  return text.str();
}

std::optional<DumpNote> DumpNote::Read(tf::Env* env, const std::string& path) {
  if (IsLocalPath(path)) CheckIsFile(path);
  const absl::Status is_there = env->FileExists(path);
  if (absl::IsNotFound(is_there)) return std::nullopt;
  ThrowOfFile(is_there, path);
  std::string text;
  ThrowOfFile(tf::ReadFileToString(env, path, &text), path);
  std::istringstream words(text);
  DumpNote note;
  const auto skip = [&](int count) {
    for (std::string word; count > 0; --count) words >> word;
  };
  std::string title, end;
  words >> title;
  skip(1);
  words >> note.id;
  skip(1);
  words >> note.num_keys;
  skip(1);
  words >> note.key_bytes;
  skip(2);
  words >> note.keys_sum;
  skip(2);
  words >> note.dim;
  skip(2);
  words >> note.rows_sum >> end;
  const bool is_sound = note.id.size() == DumpNote::kIdDigits && note.num_keys >= 0 &&
                        (note.key_bytes == 8 || note.key_bytes == 4) && note.dim >= 1;
  if (title != kTitle || end != "end" || !is_sound || note.ToText() != text) {
    Throw(ErrorCode::kDataLoss, path,
          " was not written by a dump; remove it to read the files beside "
          "it as they are");
  }
  return note;
}

}  // namespace sok
