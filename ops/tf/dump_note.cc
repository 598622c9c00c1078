// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/dump_note.h"

#include <sstream>

#include "ops/base/error.h"
#include "ops/base/local_files.h"
#include "tensorflow/core/platform/path.h"

namespace sok {
namespace {

namespace tf = tensorflow;

constexpr char kTitle[] = "sok_compat-dump-1";

ErrorCode CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return ErrorCode::kNotFound;
    case absl::StatusCode::kPermissionDenied:
      return ErrorCode::kPermissionDenied;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:  // a file as large as a file may be
      return ErrorCode::kNoSpace;
    case absl::StatusCode::kDataLoss:
      return ErrorCode::kDataLoss;
    default:
      return ErrorCode::kIo;
  }
}

bool LeadsOut(const std::string& name) {
  if (name.empty() || name.front() == '/') return true;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '/');) {
    if (part == "..") return true;
  }
  return false;
}

}  // namespace

void ThrowOfFile(const absl::Status& status, const std::string& path) {
  if (status.ok()) return;
  const std::string message(status.message());
  const bool is_named = message.find(path) != std::string::npos;
  Throw(CodeOf(status), is_named ? "" : path + ": ", message);
}

DumpPlaces::DumpPlaces(const std::string& folder, const std::string& name) {
  if (folder.empty()) {
    Throw(ErrorCode::kInvalidArgument,
          "the folder of a table's files is empty; '.' is the current one");
  }
  if (LeadsOut(name)) {
    Throw(ErrorCode::kInvalidArgument, "a table's name, '", name,
          "', is part of its files' names: it must not be empty, begin with '/', or contain '..'");
  }
  stem_ = tf::io::JoinPath(folder, name);
}

std::string DumpPlaces::folder() const { return std::string(tf::io::Dirname(stem_)); }

bool DumpPlaces::IsUntil(const std::string& file_name) const {
  const size_t dot = file_name.rfind('.');
  if (dot == std::string::npos || file_name.size() - dot - 1 != DumpNote::kIdDigits ||
      file_name.find_first_not_of("0123456789abcdef", dot + 1) != std::string::npos)
    return false;
  const std::string place = tf::io::JoinPath(folder(), file_name.substr(0, dot));
  return place == keys() || place == rows() || place == note();
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
  if (!env->FileExists(path).ok()) return std::nullopt;
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
  if (title != kTitle || end != "end" || note.ToText() != text) {
    Throw(ErrorCode::kDataLoss, path, " is not what a dump has written; remove it to read the ",
          "files beside it as they are");
  }
  return note;
}

}  // namespace sok
