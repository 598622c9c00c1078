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

/// Without a hash index.
void CheckKeysHaveRows(const TableOptions& options, const std::vector<int64_t>& keys) {
  const Placement& placement = options.placement;
  const int64_t num_rows = placement.NumRows(options.capacity);
  for (const int64_t key : keys) {
    if (placement.RowOf(key, num_rows) >= 0) continue;
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", key, " is outside [0, ",
          placement.KeyLimit(options.capacity),
          "), the range of a table without a hash table; raise max_vocabulary_size_per_gpu or use "
          "use_hashtable=True");
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
          " rows; raise max_vocabulary_size_per_gpu");
  }
  if (!options.use_hash_index) CheckKeysHaveRows(options, keys);
  if (has_narrow_keys) CheckKeysAreNarrow(options, keys);
}

}  // namespace sok
