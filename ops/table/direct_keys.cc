// SPDX-License-Identifier: Apache-2.0
#include "ops/table/direct_keys.h"

#include <algorithm>

#include "ops/base/error.h"

namespace sok {

void ThrowForeignKey(const TableOptions& options, int64_t key) {
  if (key >= 0 && key / options.world_size < options.capacity) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", key, " belongs to rank ",
          key % options.world_size, " of ", options.world_size, ", and this is rank ", options.rank,
          "; send keys to the rank key % world_size");
  }
  const auto end = static_cast<unsigned __int128>(options.capacity) *
                   static_cast<unsigned __int128>(options.world_size);
  const auto last = static_cast<int64_t>(std::min<unsigned __int128>(end - 1, INT64_MAX));
  Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", key,
        " is outside of its range, 0 to ", last, " (", options.capacity, " rows on each of ",
        options.world_size,
        " ranks, no hash index); raise the capacity (max_vocabulary_size_per_gpu), or set "
        "use_hashtable=True to allow any key");
}

}  // namespace sok
