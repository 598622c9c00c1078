// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/restored_keys.h"

#include <algorithm>

#include "ops/base/error.h"

namespace sok {

bool IsOwned(const TableOptions& options, int64_t key) {
  const int64_t remainder = key % options.world_size;
  return (remainder < 0 ? remainder + options.world_size : remainder) == options.rank;
}

void CheckKeysFit(const TableOptions& options, const std::vector<int64_t>& keys) {
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
  if (options.use_hash_index || sorted.empty()) return;
  const int64_t limit = options.capacity * options.world_size;
  if (sorted.front() < 0 || sorted.back() >= limit) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ",
          sorted.front() < 0 ? sorted.front() : sorted.back(), " is outside [0, ", limit,
          "), the range of a table without a hash table; raise max_vocabulary_size_per_gpu or use "
          "use_hashtable=True");
  }
}

void CheckKeysAreNarrow(const TableOptions& options, const std::vector<int64_t>& keys) {
  for (const int64_t key : keys) {
    if (key < 0 || key > int64_t{UINT32_MAX}) {
      Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", key,
            " to restore is not a uint32, the table's key_dtype; use key_dtype='int64'");
    }
  }
}

}  // namespace sok
