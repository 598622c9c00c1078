// SPDX-License-Identifier: Apache-2.0
// Every difference between TensorFlow releases that the C++ meets: calls that newer ones deprecate
// and for which older ones have nothing else. Of two overloads the first one holds where the newer
// call exists, since it fits the 0 that is passed better.
#ifndef SOK_OPS_TF_BASE_TF_VERSIONS_H_
#define SOK_OPS_TF_BASE_TF_VERSIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sok {
namespace tf_versions {

/// 2.21: the memory is a span.
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

/// Reads memory.size() bytes from `offset` on; `*read` says where they are, in `memory` or not.
/// OutOfRange where the file ends before, with `*read` what there is.
template <typename File>
absl::Status ReadAt(const File& file, uint64_t offset, absl::Span<char> memory,
                    absl::string_view* read) {
  return tf_versions::Read(file, offset, memory, read, 0);
}

}  // namespace sok

#endif  // SOK_OPS_TF_BASE_TF_VERSIONS_H_
