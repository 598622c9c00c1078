// SPDX-License-Identifier: Apache-2.0
// Chooses the table class for a device and its options.
#include "ops/table/table.h"

#include "ops/base/error.h"
#include "ops/table/direct_table.h"
#include "ops/table/hash_table.h"

namespace sok {

void CheckTableOptions(const TableOptions& options) {
  const auto check = [&](bool is_valid, const char* what, int64_t value) {
    if (is_valid) return;
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': ", what, ", got ", value);
  };
  check(options.dim >= 1, "dim must be at least 1", options.dim);
  check(options.capacity >= 1, "capacity must be at least 1 row", options.capacity);
  check(options.world_size >= 1, "world_size must be at least 1", options.world_size);
  check(options.rank >= 0 && options.rank < options.world_size,
        "rank must be at least 0 and below world_size", options.rank);
}

std::unique_ptr<Table> Table::Create(Device, const TableOptions& options) {
  CheckTableOptions(options);
  if (options.use_hash_index) return std::make_unique<CpuHashTable>(options);
  return std::make_unique<CpuDirectTable>(options);
}

}  // namespace sok
