// SPDX-License-Identifier: Apache-2.0
// A table without an index in device memory: row = key / world_size, and one bit a row: has its key
// come?
#ifndef SOK_OPS_DEVICE_DIRECT_DEVICE_TABLE_H_
#define SOK_OPS_DEVICE_DIRECT_DEVICE_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "ops/base/atomics.h"
#include "ops/base/error.h"
#include "ops/device/index_kernels.h"
#include "ops/device/new_rows.h"
#include "ops/table/direct_table.h"

namespace sok {

/// What the host has to know of a batch.
struct DirectKeyRange {
  uint32_t first_foreign;  // position of the first key that has no row on this rank, or ~0
  uint32_t flipped_last;   // ~(the highest row), or ~0
};

/// Looks at keys[i]; `range` holds all ones before.
struct CheckDirectKeys {
  const int64_t* keys;
  int64_t capacity;
  int64_t world_size;
  int64_t rank;
  DirectKeyRange* range;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t key = keys[i];
    const int64_t row = key / world_size;
    const bool is_ours = key >= 0 && row < capacity && key - row * world_size == rank;
    uint32_t* least = is_ours ? &range->flipped_last : &range->first_foreign;
    const uint32_t value = is_ours ? ~static_cast<uint32_t>(row) : static_cast<uint32_t>(i);
    if (value < AtomicLoad(least)) AtomicMin(least, value);
  }
};

/// row_ids[i] = row of keys[i], or -1, and one bit of `missing` for each key whose row has not
/// come.
struct FindDirectRows {
  const uint32_t* held;
  const int64_t* keys;
  int64_t world_size;
  int64_t* row_ids;
  uint32_t* missing;

  SOK_HOST_DEVICE bool Vote(int64_t i) const {
    const int64_t row = keys[i] / world_size;
    const bool is_held = (held[row / kTile] >> (row % kTile)) & 1u;
    row_ids[i] = is_held ? row : -1;
    return !is_held;
  }
  SOK_HOST_DEVICE void Tally(int64_t tile, uint32_t mask) const { missing[tile] = mask; }
};

struct DirectRowsOfKeys {
  const int64_t* keys;
  int64_t world_size;
  int64_t* rows;

  SOK_HOST_DEVICE void operator()(int64_t k) const { rows[k] = keys[k] / world_size; }
};

struct HoldRows {
  const int64_t* rows;
  uint32_t* held;

  SOK_HOST_DEVICE void operator()(int64_t k) const {
    AtomicOr(held + rows[k] / kTile, 1u << (rows[k] % kTile));
  }
};

struct CompactDirectRows {
  Rank held;
  int64_t world_size;
  int64_t rank;
  int64_t* keys;
  int64_t* row_ids;

  SOK_HOST_DEVICE void operator()(int64_t row) const {
    if (!held.IsSet(row)) return;
    const int32_t place = held.Of(row);
    keys[place] = row * world_size + rank;
    row_ids[place] = row;
  }
};

/// The same table as CpuDirectTable. Its calls are those of DeviceTable, except that those on keys
/// wait: the host must know whether all keys are in range. Used by one thread at a time.
template <typename Queue>
class DirectDeviceTable {
 public:
  using Stream = typename Queue::Stream;
  using Planes = DevicePlanes<Queue>;

  /// Most rows that a table has.
  static constexpr int64_t kMaxRows = INT32_MAX;

  /// Throws kInvalidArgument for a dim or capacity out of range.
  DirectDeviceTable(Queue& queue, const TableOptions& options)
      : queue_(queue), options_(options), scratch_(queue), held_memory_(queue) {
    if (options.dim < 1 || options.capacity < 1 || options.capacity > kMaxRows) {
      Throw(ErrorCode::kInvalidArgument, "table '", options.name,
            "': without a hash index a GPU holds 1 to ", kMaxRows, " rows of 1 float or more, got ",
            options.capacity, " of ", options.dim);
    }
    const int64_t bytes = NumTiles(options.capacity) * static_cast<int64_t>(sizeof(uint32_t));
    held_memory_.Reserve(bytes);
    const QueueCall<Queue> call(queue_, Stream{});
    queue_.FillBytes(held_memory_.template as<void>(), 0, bytes);
  }

  const TableOptions& options() const { return options_; }

  TableCounters Counters(Stream stream) {
    const QueueCall<Queue> call(queue_, stream);
    const typename Scratch<Queue>::Frame frame(scratch_);
    return {NumHeld(), num_rows_, 0};
  }

  void Find(Stream stream, int64_t num_keys, const int64_t* keys, int64_t* row_ids) {
    const QueueCall<Queue> call(queue_, stream);
    const typename Scratch<Queue>::Frame frame(scratch_);
    Check(num_keys, keys);
    auto* missing = scratch_.template Take<uint32_t>(NumTiles(num_keys));
    queue_.ForEachVote(num_keys,
                       FindDirectRows{held(), keys, options_.world_size, row_ids, missing});
  }

  void FindOrInsert(Stream stream, int64_t num_keys, const int64_t* keys, bool are_distinct,
                    const float* initial_rows, const Planes& planes, int64_t* row_ids) {
    if (num_keys == 0) return;
    const QueueCall<Queue> call(queue_, stream);
    const typename Scratch<Queue>::Frame frame(scratch_);
    const int64_t num_rows = std::max(num_rows_, Check(num_keys, keys) + 1);
    auto* missing = scratch_.template Take<uint32_t>(NumTiles(num_keys));
    queue_.ForEachVote(num_keys,
                       FindDirectRows{held(), keys, options_.world_size, row_ids, missing});
    const NewKeys new_keys = TakeNewKeys(queue_, scratch_, num_keys, keys, missing, are_distinct);
    auto* new_rows = scratch_.template Take<int64_t>(num_keys);
    queue_.ForEach(new_keys.count, DirectRowsOfKeys{new_keys.keys, options_.world_size, new_rows});
    planes.Reserve(num_rows);
    planes.ReserveAhead(std::min(num_rows + num_rows / 4, options_.capacity), options_.capacity);
    WriteNewRows(queue_, options_, new_keys, new_rows, initial_rows, planes);
    queue_.ForEach(new_keys.count, HoldRows{new_rows, held()});
    FillMissingRows(queue_, new_keys, new_rows, row_ids);
    num_rows_ = num_rows;
  }

  /// Makes memory for the first `num_rows` rows.
  void Reserve(Stream, int64_t num_rows, const Planes& planes) {
    planes.Reserve(std::min(num_rows, options_.capacity));
  }

  int64_t Export(Stream stream, int64_t room, int64_t* keys, int64_t* row_ids) {
    const QueueCall<Queue> call(queue_, stream);
    const typename Scratch<Queue>::Frame frame(scratch_);
    const int32_t* tile_sums = SumHeld();
    const int64_t num_held = NumHeld();
    if (num_held > room) {
      Throw(ErrorCode::kInvalidArgument, "table '", options_.name, "' holds ", num_held,
            " keys, and there is room for ", room);
    }
    queue_.ForEach(
        num_rows_,
        CompactDirectRows{{held(), tile_sums}, options_.world_size, options_.rank, keys, row_ids});
    return num_held;
  }

  /// As those of DeviceTable, within a call to the queue.
  Count RowsInUse() const { return num_rows_; }
  /// One bit for each row whose key has come.
  uint32_t* held() const { return held_memory_.template as<uint32_t>(); }

 private:
  /// Returns the highest row that keys ask for.
  int64_t Check(int64_t num_keys, const int64_t* keys) {
    auto* range = scratch_.template Take<DirectKeyRange>(1);
    queue_.FillBytes(range, 0xff, sizeof(DirectKeyRange));
    queue_.ForEach(num_keys, CheckDirectKeys{keys, options_.capacity, options_.world_size,
                                             options_.rank, range});
    DirectKeyRange found;
    queue_.CopyToHost(&found, range, sizeof(found));
    if (found.first_foreign != UINT32_MAX) {
      int64_t key = 0;
      queue_.CopyToHost(&key, keys + found.first_foreign, sizeof(key));
      ThrowForeignKey(options_, key);
    }
    return int64_t{~found.flipped_last};
  }

  const int32_t* SumHeld() {
    const int64_t num_tiles = NumTiles(num_rows_);
    auto* tile_sums = scratch_.template Take<int32_t>(num_tiles + 1);
    queue_.ExclusiveSum(num_tiles, TileCount{held(), num_rows_}, tile_sums);
    return tile_sums;
  }

  int64_t NumHeld() {
    int32_t count = 0;
    queue_.CopyToHost(&count, SumHeld() + NumTiles(num_rows_), sizeof(count));
    return count;
  }

  Queue& queue_;
  const TableOptions options_;
  Scratch<Queue> scratch_;
  DeviceBuffer<Queue> held_memory_;
  int64_t num_rows_ = 0;  // one past the highest row whose key has come
};

}  // namespace sok

#endif  // SOK_OPS_DEVICE_DIRECT_DEVICE_TABLE_H_
