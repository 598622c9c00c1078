// SPDX-License-Identifier: Apache-2.0
#include "ops/engine/table_options.h"

#include "ops/base/error.h"

namespace sok {

void CheckTableOptions(const TableOptions& options) {
  const auto check = [&](bool is_valid, const auto&... what) {
    if (is_valid) return;
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': ", what...);
  };
  const Placement& placement = options.placement;
  check(options.dim >= 1, "dim must be at least 1, got ", options.dim);
  check(options.dim <= kMaxDim, "dim must be at most ", kMaxDim, " (1 GiB a row), got ",
        options.dim);
  check(options.capacity >= 1, "capacity must be at least 1 row, got ", options.capacity);
  check(placement.num_ranks >= 1, "world_size must be at least 1, got ", placement.num_ranks);
  check(placement.rank >= 0 && placement.rank < placement.num_ranks,
        "rank must be at least 0 and below world_size, got ", placement.rank);
  const FirstValue& first_value = options.first_value;
  check(first_value.kind != FirstValue::Kind::kRows ||
            (first_value.rows != nullptr && first_value.period >= 1),
        "the first value 'rows' needs rows for a period of at least 1 key, got ",
        first_value.period);
  if (placement.kind == Placement::Kind::kOneRank) {
    check(placement.owner_rank >= 0 && placement.owner_rank < placement.num_ranks,
          "owner_rank must be at least 0 and below world_size, got ", placement.owner_rank);
  }
  if (placement.kind == Placement::Kind::kRange) {
    check(placement.num_keys >= 1, "num_keys must be at least 1, got ", placement.num_keys);
    const int64_t num_rows = placement.NumRows(INT64_MAX);
    check(options.use_hash_index || options.capacity >= num_rows, "this rank owns ", num_rows,
          " keys, but the capacity is ", options.capacity);
  }
}

void ThrowForeignKey(const TableOptions& options, int64_t key) {
  const Placement& placement = options.placement;
  const int64_t end = placement.KeyLimit(options.capacity);
  const int64_t owner = placement.Owner(key);
  if (key >= 0 && (key < end || end == INT64_MAX) && owner != placement.rank) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", key, " belongs to rank ",
          owner, " of ", placement.num_ranks, ", but this is rank ", placement.rank,
          "; send keys to the rank ",
          placement.kind == Placement::Kind::kModulo ? "key % world_size" : "that owns them");
  }
  const int64_t last = end == INT64_MAX ? end : end - 1;
  Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", key,
        " is outside of its range, 0 to ", last, " (", options.capacity, " rows on each of ",
        placement.num_ranks, " ranks, no hash index); ", options.raise_capacity,
        ", or use a table with a hash index to allow any key");
}

void ThrowNoSuchRow(const TableOptions& options, int64_t row_id, int64_t num_rows) {
  Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': gradient for row ", row_id,
        ", but the table has ", num_rows,
        " rows; take gradients with tf.gradients of this table's lookups");
}

void ThrowFull(const TableOptions& options, int64_t most_rows, int64_t num_keys, int64_t num_kept,
               int64_t num_new_keys) {
  const std::string kept = num_kept == 0
                               ? ""
                               : ", " + std::to_string(num_kept) +
                                     " rows of evicted keys are still in use by running steps";
  if (options.capacity <= most_rows && options.capacity != kMaxRows) {
    Throw(ErrorCode::kOutOfCapacity, "table '", options.name, "' is full: its capacity is ",
          options.capacity, " keys, it holds ", num_keys, kept, ", and ", num_new_keys,
          " new keys came; ", options.raise_capacity, ", or erase keys. The table is unchanged");
  }
  Throw(ErrorCode::kOutOfCapacity, "table '", options.name, "' is full: one rank holds at most ",
        most_rows, " keys, it holds ", num_keys, kept, ", and ", num_new_keys,
        " new keys came; use more ranks, or erase keys. The table is unchanged");
}

}  // namespace sok
