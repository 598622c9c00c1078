// SPDX-License-Identifier: Apache-2.0
// How the table grows, with bounds of its counters on the host, and shrinks. Included by
// device_table.h.
#pragma once

#include "ops/device/device_table.h"

namespace sok {

/// Tightens the bounds by counters that have arrived, without waiting.
template <typename Queue>
void DeviceTable<Queue>::TightenBounds() {
  TableCounters counters;
  if (!late_counters_.TryTake(&counters)) return;
  most_keys_ = std::min(most_keys_, counters.num_keys + most_inserts_since_);
  most_rows_ = std::min(most_rows_, std::max(counters.num_rows, most_keys_ + num_kept_));
}

template <typename Queue>
int64_t DeviceTable<Queue>::RoomInIndex() const {
  return num_buckets_ * DeviceBucket::kSlots * kMaxLoadPercent / 100;
}

/// Rows of erased keys are reused before new ones, so the number of rows never exceeds the largest
/// number of keys and kept rows at one time.
template <typename Queue>
int64_t DeviceTable<Queue>::MostRowsAfter(int64_t num_new) const {
  return std::max(most_rows_, most_keys_ + num_kept_ + num_new);
}

template <typename Queue>
bool DeviceTable<Queue>::HasRoom(int64_t num_new, const QueuePlanes& planes) const {
  return most_keys_ + num_new <= RoomInIndex() && most_keys_ + num_kept_ + num_new <= Limit() &&
         MostRowsAfter(num_new) <= planes.RoomForRows(Limit());
}

/// Makes room for the new keys of a batch of `num_keys`, and returns the bound of their number.
/// Comes after all other allocations of the call, as memory for later batches takes what is left.
template <typename Queue>
int64_t DeviceTable<Queue>::MakeRoom(int64_t num_keys, Count num_new_keys,
                                     const QueuePlanes& planes) {
  TightenBounds();
  if (HasRoom(num_keys, planes)) return num_keys;
  const TableCounters current = ReadCounters();
  if (HasRoom(num_keys, planes)) return num_keys;
  int32_t num_new;
  queue_.CopyToHost(&num_new, num_new_keys.exact, sizeof(num_new));
  const int64_t needed = current.num_keys + num_new;
  if (needed + num_kept_ > Limit()) {
    ThrowFull(options_, kMaxKeys, current.num_keys, num_kept_, num_new);
  }
  const int64_t for_this = std::min(current.num_keys + num_keys, Limit());
  const int64_t ahead = std::min(current.num_keys + num_keys * kBatchesAhead, Limit());
  planes.Reserve(MostRowsAfter(num_new));
  if (for_this > RoomInIndex()) {
    const int64_t wanted = std::max(ahead, RoomInIndex() * kGrowthPercent / 100);
    const bool is_granted = IsGranted([&] { GrowIndex(for_this, wanted); });
    if (!is_granted && needed > RoomInIndex()) GrowIndex(needed, needed);
  }
  planes.ReserveAhead(std::min(ahead + num_kept_, Limit()), Limit());
  return num_new;
}

template <typename Queue>
void DeviceTable<Queue>::Reserve(Call& call, int64_t num_keys, const Planes& planes) {
  const Turn turn(*state_, call.stream());
  const int64_t most_keys = std::min(num_keys, Limit());
  OnQueue(planes).Reserve(std::min(most_keys + num_kept_, Limit()));  // erased rows first
  if (!options_.use_hash_index) return ReserveBits(most_keys);
  if (most_keys > RoomInIndex()) GrowIndex(most_keys, most_keys);
}

/// Without a hash index: makes memory for one bit per row below `num_rows`.
template <typename Queue>
void DeviceTable<Queue>::ReserveBits(int64_t num_rows) {
  const int64_t bytes_before = index_memory_.size_bytes();
  const int64_t bytes = NumTiles(num_rows) * static_cast<int64_t>(sizeof(uint32_t));
  if (bytes <= bytes_before) return;
  DeviceBuffer<Queue> memory(queue_, std::max(bytes, 2 * bytes_before));
  queue_.FillBytes(memory.template as<char>() + bytes_before, 0,
                   memory.size_bytes() - bytes_before);
  queue_.CopyOnDevice(memory.template as<void>(), index_memory_.template as<void>(), bytes_before);
  index_memory_ = std::move(memory);
}

/// Moves the keys into an index for `wanted` keys or, if memory is refused, fewer, down to
/// `needed`. Row ids do not change.
template <typename Queue>
void DeviceTable<Queue>::GrowIndex(int64_t needed, int64_t wanted) {
  DeviceBuffer<Queue> memory(queue_);
  ReserveAhead(needed, wanted, [&](int64_t num_keys) {
    const int64_t slots_percent = DeviceBucket::kSlots * kMaxLoadPercent;
    const int64_t num_buckets = num_keys * 100 / slots_percent + 1;
    memory.Reserve(num_buckets * static_cast<int64_t>(sizeof(DeviceBucket)));
  });
  const int64_t num_buckets = memory.size_bytes() / static_cast<int64_t>(sizeof(DeviceBucket));
  auto* buckets = memory.template as<DeviceBucket>();
  queue_.ForEach(num_buckets, ClearBuckets{buckets});
  queue_.ForEach(num_buckets_ * DeviceBucket::kSlots,
                 RehashSlot{index().buckets, {buckets, num_buckets, HashSecret()}});
  index_memory_ = std::move(memory);
  num_buckets_ = num_buckets;
}

/// Grows a list to `num_needed` rows; the first `num_in_use` stay.
template <typename Queue>
void DeviceTable<Queue>::ReserveRows(DeviceBuffer<Queue>* rows, int64_t num_in_use,
                                     int64_t num_needed) {
  const int64_t bytes = num_needed * static_cast<int64_t>(sizeof(uint32_t));
  if (bytes <= rows->size_bytes()) return;
  DeviceBuffer<Queue> memory(queue_, std::max(bytes, 2 * rows->size_bytes()));
  queue_.CopyOnDevice(memory.template as<void>(), rows->template as<void>(),
                      num_in_use * static_cast<int64_t>(sizeof(uint32_t)));
  *rows = std::move(memory);
}

template <typename Queue>
int64_t DeviceTable<Queue>::Erase(Call& call, int64_t num_keys, const int64_t* keys) {
  const Turn turn(*state_, call.stream());
  return EraseInto({&free_rows_memory_, &TableCounters::num_free}, num_keys, keys);
}

template <typename Queue>
int64_t DeviceTable<Queue>::Evict(Call& call, int64_t num_keys, const int64_t* keys) {
  const Turn turn(*state_, call.stream());
  const int64_t num_evicted =
      EraseInto({&kept_rows_memory_, &TableCounters::num_kept}, num_keys, keys);
  if (options_.use_hash_index) num_kept_ += num_evicted;
  return num_evicted;
}

template <typename Queue>
void DeviceTable<Queue>::ReturnRows(Call& call, int64_t num_rows) {
  const Turn turn(*state_, call.stream());
  num_rows = std::min(num_rows, num_kept_);
  if (num_rows == 0) return;
  constexpr auto kRowBytes = static_cast<int64_t>(sizeof(uint32_t));
  TableCounters current = ReadCounters();
  const int64_t num_free = current.num_free;
  const int64_t num_left = num_kept_ - num_rows;
  ReserveRows(&free_rows_memory_, num_free, num_free + num_rows);
  DeviceBuffer<Queue> left(queue_, num_left * kRowBytes);
  queue_.CopyOnDevice(free_rows_memory_.template as<uint32_t>() + num_free,
                      kept_rows_memory_.template as<void>(), num_rows * kRowBytes);
  queue_.CopyOnDevice(left.template as<void>(),
                      kept_rows_memory_.template as<uint32_t>() + num_rows, num_left * kRowBytes);
  current.num_kept -= num_rows;
  current.num_free += num_rows;
  WriteCounters(current);
  kept_rows_memory_ = std::move(left);
  num_kept_ = num_left;
}

/// Without a hash index a key keeps its row for ever.
template <typename Queue>
int64_t DeviceTable<Queue>::EraseInto(const RowList& list, int64_t num_keys, const int64_t* keys) {
  CheckBatchSize(num_keys, kMaxBatch);
  if (num_keys == 0) return 0;
  CheckKeys(num_keys, keys);
  TableCounters current = ReadCounters();
  const bool are_listed = options_.use_hash_index;
  const int64_t num_listed = current.*list.count;
  if (are_listed) {
    ReserveRows(list.memory, num_listed, std::min(num_listed + num_keys, current.num_rows));
  }
  int64_t* const count = &(counters()->*list.count);
  const int64_t num_tiles = NumTiles(num_keys);
  auto* distinct = scratch_.template Take<int64_t>(num_keys);
  auto* inverse = scratch_.template Take<int32_t>(num_keys);
  auto* slots = scratch_.template Take<int64_t>(num_keys);
  auto* found = scratch_.template Take<uint32_t>(num_tiles);
  auto* tile_sums = scratch_.template Take<int32_t>(num_tiles + 1);
  const Count num_distinct(
      num_keys, DistinctKeys(queue_, scratch_, num_keys, keys, distinct, nullptr, inverse));
  auto* rows = are_listed ? list.memory->template as<uint32_t>() : nullptr;
  const Rank found_rank{found, tile_sums};
  WithIndex([&](auto index) {
    queue_.ForEachVote(num_distinct, FindSlots<decltype(index)>{index, distinct, slots, found});
    queue_.ExclusiveSum(num_tiles, TileCount{found, num_distinct}, tile_sums);
    queue_.ForEach(num_distinct,
                   EraseFound<decltype(index)>{index, distinct, slots, found_rank, count, rows});
  });
  int32_t num_erased = 0;
  queue_.CopyToHost(&num_erased, tile_sums + num_tiles, sizeof(num_erased));
  current.num_keys -= num_erased;
  if (are_listed) current.*list.count += num_erased;
  WriteCounters(current);
  return num_erased;
}

}  // namespace sok
