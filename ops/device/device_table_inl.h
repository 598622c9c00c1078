// SPDX-License-Identifier: Apache-2.0
// The table's calls as sequences of kernels. Included by device_table.h.
#ifndef SOK_OPS_DEVICE_DEVICE_TABLE_INL_H_
#define SOK_OPS_DEVICE_DEVICE_TABLE_INL_H_

#include "ops/device/device_table.h"

namespace sok {

template <typename Queue>
DeviceTable<Queue>::DeviceTable(Queue& queue, const TableOptions& options,
                                DeviceTableOptions device_options)
    : queue_(queue),
      options_(options),
      device_options_(device_options),
      scratch_(queue),
      index_memory_(queue),
      free_rows_memory_(queue),
      counters_memory_(queue, sizeof(TableCounters)),
      late_counters_(queue) {
  const auto check = [&](bool is_valid, const char* what, int64_t value) {
    if (is_valid) return;
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': ", what, ", got ", value);
  };
  check(options.dim >= 1, "dim must be at least 1", options.dim);
  check(options.capacity >= 1, "capacity must be at least 1 row", options.capacity);
  check(options.use_hash_index, "a table on the GPU needs use_hash_index", 0);
  const int load = device_options.max_load_percent;
  check(load >= 1 && load <= 95, "max_load_percent must be between 1 and 95", load);
  Clear(Stream{});
}

template <typename Queue>
void DeviceTable<Queue>::CheckBatch(int64_t num_keys) const {
  if (num_keys <= kMaxBatch) return;
  Throw(ErrorCode::kInvalidArgument, "table '", options_.name, "': a batch of ", num_keys,
        " keys is above the limit of ", kMaxBatch, " on a GPU; split it");
}

template <typename Queue>
TableCounters DeviceTable<Queue>::ReadCounters() {
  TableCounters counters;
  queue_.CopyToHost(&counters, this->counters(), sizeof(counters));
  late_counters_.Forget();
  most_keys_ = counters.num_keys;
  most_rows_ = counters.num_rows;
  return counters;
}

template <typename Queue>
TableCounters DeviceTable<Queue>::Counters(Stream stream) {
  const Call call(*this, stream);
  return ReadCounters();
}

/// Replaces what the host fears by what it has heard, without waiting.
template <typename Queue>
void DeviceTable<Queue>::TightenBounds() {
  TableCounters counters;
  if (!late_counters_.TryTake(&counters)) return;
  most_keys_ = std::min(most_keys_, counters.num_keys + most_inserts_since_);
  most_rows_ = std::min(most_rows_, std::max(counters.num_rows, most_keys_));
}

template <typename Queue>
int64_t DeviceTable<Queue>::RoomInIndex() const {
  return num_buckets_ * DeviceBucket::kSlots * device_options_.max_load_percent / 100;
}

/// Rows of erased keys are handed out before new ones, so there are never more rows than there have
/// been keys at one time.
template <typename Queue>
int64_t DeviceTable<Queue>::MostRowsAfter(int64_t num_new) const {
  return std::max(most_rows_, most_keys_ + num_new);
}

template <typename Queue>
bool DeviceTable<Queue>::HasRoom(int64_t num_new, const Planes& planes) const {
  return most_keys_ + num_new <= std::min(RoomInIndex(), Limit()) &&
         MostRowsAfter(num_new) <= planes.RoomForRows(Limit());
}

template <typename Queue>
void DeviceTable<Queue>::Find(Stream stream, int64_t num_keys, const int64_t* keys,
                              int64_t* row_ids) {
  CheckBatch(num_keys);
  const Call call(*this, stream);
  queue_.ForEach(num_keys, FindRows{index(), keys, row_ids});
}

template <typename Queue>
void DeviceTable<Queue>::FindAndGatherRows(Stream stream, int64_t num_keys, const int64_t* keys,
                                           const GrowingRows<Queue>& rows, int64_t* row_ids,
                                           float* out) {
  CheckBatch(num_keys);
  const Call call(*this, stream);
  const int64_t dim = options_.dim;
  WithPack(dim, {rows.data(), out}, [&](auto pack) {
    using Pack = decltype(pack);
    queue_.ForEachLookThenMove(num_keys, dim / Pack::width,
                               FindAndGather<Pack>{index(), dim, keys, rows.data(), row_ids, out});
  });
  FillAbsentRows(queue_, num_keys, dim, options_.first_value, keys, row_ids, out);
}

template <typename Queue>
void DeviceTable<Queue>::FindOrInsert(Stream stream, int64_t num_keys, const int64_t* keys,
                                      bool are_distinct, const float* initial_rows,
                                      const Planes& planes, int64_t* row_ids) {
  CheckBatch(num_keys);
  if (num_keys == 0) return;
  const Call call(*this, stream);
  typename Scratch<Queue>::Frame frame(scratch_);
  const NewKeys new_keys = FindNewKeys(num_keys, keys, are_distinct, row_ids);
  auto* new_rows = scratch_.template Take<int64_t>(num_keys);
  const int64_t most_new = MakeRoom(num_keys, new_keys.count, planes);
  queue_.ForEach(new_keys.count,
                 InsertNewKeys{index(), new_keys.keys, free_rows_memory_.template as<uint32_t>(),
                               &counters()->num_free, &counters()->num_rows, new_rows});
  WriteNewRows(queue_, options_, new_keys, new_rows, initial_rows, planes);
  FillMissingRows(queue_, new_keys, new_rows, row_ids);
  queue_.ForEach(1, CommitInserts{counters(), new_keys.count.exact});
  most_rows_ = MostRowsAfter(most_new);
  most_keys_ += most_new;
  most_inserts_since_ += most_new;
  if (!late_counters_.is_requested()) {
    late_counters_.Request(queue_, counters());
    most_inserts_since_ = 0;
  }
}

/// Looks all keys up, and takes out those that have no row.
template <typename Queue>
NewKeys DeviceTable<Queue>::FindNewKeys(int64_t num_keys, const int64_t* keys, bool are_distinct,
                                        int64_t* row_ids) {
  auto* missing = scratch_.template Take<uint32_t>(NumTiles(num_keys));
  queue_.ForEachVote(num_keys, FindRowsAndMissing{index(), keys, row_ids, missing});
  return TakeNewKeys(queue_, scratch_, num_keys, keys, missing, are_distinct);
}

/// Makes sure that the new keys of a batch of `num_keys` fit, and returns how many they may be. All
/// else that the call needs is there already: memory for later batches takes what is left.
template <typename Queue>
int64_t DeviceTable<Queue>::MakeRoom(int64_t num_keys, Count num_new_keys, const Planes& planes) {
  TightenBounds();
  if (HasRoom(num_keys, planes)) return num_keys;
  const TableCounters held = ReadCounters();
  if (HasRoom(num_keys, planes)) return num_keys;
  int32_t num_new;
  queue_.CopyToHost(&num_new, num_new_keys.exact, sizeof(num_new));
  const int64_t needed = held.num_keys + num_new;
  if (needed > Limit()) ThrowFull(held.num_keys, num_new);
  const int64_t for_this = std::min(held.num_keys + num_keys, Limit());
  const int64_t ahead = std::min(held.num_keys + num_keys * kBatchesAhead, Limit());
  planes.Reserve(MostRowsAfter(num_new));
  if (for_this > RoomInIndex()) {
    const int64_t wanted = std::max(ahead, RoomInIndex() * kGrowthPercent / 100);
    const bool is_granted = IsGranted([&] { GrowIndex(for_this, wanted); });
    if (!is_granted && needed > RoomInIndex()) GrowIndex(needed, needed);
  }
  planes.ReserveAhead(ahead, Limit());
  return num_new;
}

template <typename Queue>
void DeviceTable<Queue>::ThrowFull(int64_t num_held, int64_t num_new) const {
  const bool is_capacity = Limit() == options_.capacity;
  Throw(ErrorCode::kOutOfCapacity, "table '", options_.name,
        "' is full: ", is_capacity ? "its capacity is " : "one GPU holds at most ", Limit(),
        " keys, it holds ", num_held, ", and ", num_new, " new keys came; ",
        is_capacity ? "raise the capacity (max_vocabulary_size_per_gpu)" : "use more ranks",
        ", or erase keys. The table is as it was before them");
}

template <typename Queue>
void DeviceTable<Queue>::Reserve(Stream stream, int64_t num_keys, const Planes& planes) {
  const Call call(*this, stream);
  const int64_t most_keys = std::min(num_keys, Limit());
  planes.Reserve(most_keys);  // rows of erased keys are handed out first
  if (most_keys > RoomInIndex()) GrowIndex(most_keys, most_keys);
}

/// Moves the keys into an index with room for `wanted` keys, or fewer if memory is refused, down to
/// `needed`; rows stay where they are.
template <typename Queue>
void DeviceTable<Queue>::GrowIndex(int64_t needed, int64_t wanted) {
  DeviceBuffer<Queue> memory(queue_);
  ReserveAhead(needed, wanted, [&](int64_t num_keys) {
    const int64_t slots_percent = DeviceBucket::kSlots * device_options_.max_load_percent;
    const int64_t num_buckets = num_keys * 100 / slots_percent + 1;
    memory.Reserve(num_buckets * static_cast<int64_t>(sizeof(DeviceBucket)));
  });
  const int64_t num_buckets = memory.size_bytes() / static_cast<int64_t>(sizeof(DeviceBucket));
  auto* buckets = memory.template as<DeviceBucket>();
  queue_.ForEach(num_buckets, ClearBuckets{buckets});
  queue_.ForEach(num_buckets_ * DeviceBucket::kSlots,
                 RehashSlot{index().buckets, {buckets, num_buckets}});
  index_memory_ = std::move(memory);
  num_buckets_ = num_buckets;
}

template <typename Queue>
int64_t DeviceTable<Queue>::Erase(Stream stream, int64_t num_keys, const int64_t* keys) {
  CheckBatch(num_keys);
  if (num_keys == 0) return 0;
  const Call call(*this, stream);
  const TableCounters held = ReadCounters();
  ReserveFreeRows(held.num_free, std::min(held.num_free + num_keys, held.num_rows));
  typename Scratch<Queue>::Frame frame(scratch_);
  const int64_t num_tiles = NumTiles(num_keys);
  auto* distinct = scratch_.template Take<int64_t>(num_keys);
  auto* inverse = scratch_.template Take<int32_t>(num_keys);
  auto* slots = scratch_.template Take<int64_t>(num_keys);
  auto* is_held = scratch_.template Take<uint32_t>(num_tiles);
  auto* tile_sums = scratch_.template Take<int32_t>(num_tiles + 1);
  const Count num_distinct(
      num_keys, DistinctKeys(queue_, scratch_, num_keys, keys, distinct, nullptr, inverse));
  queue_.ForEachVote(num_distinct, FindSlots{index(), distinct, slots, is_held});
  queue_.ExclusiveSum(num_tiles, TileCount{is_held, num_distinct}, tile_sums);
  queue_.ForEach(num_distinct, EraseFound{index(),
                                          distinct,
                                          slots,
                                          {is_held, tile_sums},
                                          &counters()->num_free,
                                          free_rows_memory_.template as<uint32_t>()});
  queue_.ForEach(1, CommitErasures{counters(), tile_sums + num_tiles});
  return held.num_keys - ReadCounters().num_keys;
}

/// Room for `num_needed` rows on the stack, whose first `num_in_use` are kept.
template <typename Queue>
void DeviceTable<Queue>::ReserveFreeRows(int64_t num_in_use, int64_t num_needed) {
  const int64_t bytes = num_needed * static_cast<int64_t>(sizeof(uint32_t));
  if (bytes <= free_rows_memory_.size_bytes()) return;
  DeviceBuffer<Queue> memory(queue_, std::max(bytes, 2 * free_rows_memory_.size_bytes()));
  queue_.CopyOnDevice(memory.template as<void>(), free_rows_memory_.template as<void>(),
                      num_in_use * static_cast<int64_t>(sizeof(uint32_t)));
  free_rows_memory_ = std::move(memory);
}

template <typename Queue>
int64_t DeviceTable<Queue>::Export(Stream stream, int64_t room, int64_t* keys, int64_t* row_ids) {
  const Call call(*this, stream);
  const TableCounters held = ReadCounters();
  if (held.num_keys > room) {
    Throw(ErrorCode::kInvalidArgument, "table '", options_.name, "' holds ", held.num_keys,
          " keys, and there is room for ", room);
  }
  typename Scratch<Queue>::Frame frame(scratch_);
  const int64_t num_tiles = NumTiles(held.num_rows);
  auto* keys_by_row = scratch_.template Take<int64_t>(held.num_rows);
  auto* is_held = scratch_.template Take<unsigned char>(held.num_rows);
  auto* masks = scratch_.template Take<uint32_t>(num_tiles);
  auto* tile_sums = scratch_.template Take<int32_t>(num_tiles + 1);
  queue_.FillBytes(is_held, 0, held.num_rows);
  queue_.ForEach(num_buckets_, KeysByRow{index().buckets, keys_by_row, is_held});
  queue_.ForEachVote(held.num_rows, VoteHeld{is_held, masks});
  queue_.ExclusiveSum(num_tiles, TileCount{masks, held.num_rows}, tile_sums);
  queue_.ForEach(held.num_rows, CompactHeld{keys_by_row, {masks, tile_sums}, keys, row_ids});
  return held.num_keys;
}

template <typename Queue>
void DeviceTable<Queue>::Clear(Stream stream) {
  const Call call(*this, stream);
  // The memory is taken anew and small, so that a cleared table costs as little as a new one.
  index_memory_ =
      DeviceBuffer<Queue>(queue_, kMinBuckets * static_cast<int64_t>(sizeof(DeviceBucket)));
  num_buckets_ = kMinBuckets;
  queue_.ForEach(num_buckets_, ClearBuckets{index().buckets});
  queue_.FillBytes(counters(), 0, sizeof(TableCounters));
  late_counters_.Forget();
  most_keys_ = 0;
  most_rows_ = 0;
}

}  // namespace sok

#endif  // SOK_OPS_DEVICE_DEVICE_TABLE_INL_H_
