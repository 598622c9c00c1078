// SPDX-License-Identifier: Apache-2.0
#include "ops/engine/table.h"

#include "ops/base/error.h"
#include "ops/engine/engine.h"

namespace sok {

AppendedKeys Table::Append(Call& call, int64_t num_keys, const int64_t* keys,
                           int64_t* row_ids_room) {
  if (!options().use_hash_index) {
    Throw(ErrorCode::kFailedPrecondition, "table '", options().name,
          "': a table without a hash index cannot append keys to consecutive rows");
  }
  const TableSize before = Size(call);
  FindOrInsert(call, {num_keys, keys}, Planes(), row_ids_room);
  return {before.num_rows, num_keys - (Size(call).num_keys - before.num_keys)};
}

std::vector<int64_t> Table::FindOnHost(Call& call, int64_t num_keys, const int64_t* keys) {
  std::vector<int64_t> row_ids(static_cast<size_t>(num_keys));
  int64_t* found =
      call.engine().IsHostMemory() ? row_ids.data() : call.Temporary<int64_t>(num_keys);
  Find(call, num_keys, call.OnDevice(keys, num_keys), found);
  call.CopyToHost(row_ids.data(), found, num_keys);
  return row_ids;
}

}  // namespace sok
