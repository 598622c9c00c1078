// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/file_errors.h"

#include "ops/base/error.h"

namespace sok {
namespace {

ErrorCode FileErrorCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return ErrorCode::kNotFound;
    case absl::StatusCode::kPermissionDenied:
      return ErrorCode::kPermissionDenied;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:  // the file system's limit of a file's size
      return ErrorCode::kNoSpace;
    case absl::StatusCode::kDataLoss:
      return ErrorCode::kDataLoss;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

void ThrowOfFile(const absl::Status& status, const std::string& path) {
  if (status.ok()) return;
  const std::string message(status.message());
  const bool is_named = message.find(path) != std::string::npos;
  Throw(FileErrorCodeOf(status), is_named ? "" : path + ": ", message);
}

}  // namespace sok
