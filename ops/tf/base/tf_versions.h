// SPDX-License-Identifier: Apache-2.0
// All differences between TensorFlow releases in C++: calls that newer releases deprecate and older
// ones lack a replacement for. Of two overloads, the first is chosen if the newer call exists,
// since the argument 0 fits it better.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sok {
namespace tf_versions {

/// 2.21: takes a span.
template <typename File>
auto Read(const File& file, uint64_t offset, absl::Span<char> memory, absl::string_view* read, int)
    -> decltype(file.Read(offset, *read, memory)) {
  return file.Read(offset, *read, memory);
}
template <typename File>
absl::Status Read(const File& file, uint64_t offset, absl::Span<char> memory,
                  absl::string_view* read, long) {
  return file.Read(offset, memory.size(), read, memory.data());
}

}  // namespace tf_versions

/// Reads memory.size() bytes from `offset` on; `*read` says where they are, in `memory` or
/// elsewhere. OutOfRange if the file ends before; `*read` is then what there is.
template <typename File>
absl::Status ReadAt(const File& file, uint64_t offset, absl::Span<char> memory,
                    absl::string_view* read) {
  return tf_versions::Read(file, offset, memory, read, 0);
}

}  // namespace sok
