// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/restored_keys.h"

#include <algorithm>

#include "ops/base/error.h"

namespace sok {
namespace {

void CheckKeysAreNarrow(const TableOptions& options, const std::vector<int64_t>& keys) {
  for (const int64_t key : keys) {
    if (key >= 0 && key <= int64_t{UINT32_MAX}) continue;
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", key,
          " to restore is not a uint32, the table's key_dtype; use key_dtype='int64'");
  }
}

}  // namespace

void CheckKeysFit(const TableOptions& options, const std::vector<int64_t>& keys,
                  bool has_narrow_keys) {
  std::vector<int64_t> sorted(keys);
  std::sort(sorted.begin(), sorted.end());
  const auto repeat = std::adjacent_find(sorted.begin(), sorted.end());
  if (repeat != sorted.end()) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", *repeat,
          " appears twice in what is restored");
  }
  const auto count = static_cast<int64_t>(keys.size());
  if (count > options.capacity) {
    Throw(ErrorCode::kOutOfCapacity, "table '", options.name, "': ", count,
          " keys to restore, but its capacity is ", options.capacity,
          " rows; raise the capacity (max_vocabulary_size_per_gpu in SparseOperationKit's layers)");
  }
  if (has_narrow_keys) CheckKeysAreNarrow(options, keys);
}

}  // namespace sok
