// SPDX-License-Identifier: Apache-2.0
// The table's calls as sequences of kernels. Included by device_table.h.
#pragma once

#include "ops/device/device_table.h"

namespace sok {

template <typename Queue>
DeviceTable<Queue>::DeviceTable(std::shared_ptr<DeviceState<Queue>> state,
                                const TableOptions& options)
    : state_(std::move(state)),
      queue_(state_->queue),
      scratch_(state_->scratch),
      options_(options),
      index_memory_(queue_),
      free_rows_memory_(queue_),
      kept_rows_memory_(queue_),
      counters_memory_(queue_, sizeof(TableCounters)),
      late_counters_(queue_) {
  CheckTableOptions(options);
  if (!options.use_hash_index && options.capacity > kMaxKeys) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name,
          "': without a hash index the capacity on one GPU must be below 2^31, got ",
          options.capacity);
  }
  const QueueCall<Queue> call(queue_, typename Queue::Stream{});
  Empty();
}

template <typename Queue>
DevicePlanes<Queue> DeviceTable<Queue>::OnQueue(const Planes& planes) {
  const auto rows = [](Plane* plane) { return static_cast<DevicePlane<Queue>*>(plane)->rows(); };
  QueuePlanes on_queue;
  if (planes.rows != nullptr) on_queue.rows = rows(planes.rows);
  for (const auto& slot : planes.slots) {
    on_queue.slots.push_back({rows(slot.plane), slot.initial_value});
  }
  if (planes.salts != nullptr) on_queue.salts = rows(planes.salts);
  return on_queue;
}

/// Without a hash index: throws if a key is not the table's, and returns one past the highest row.
/// Waits.
template <typename Queue>
int64_t DeviceTable<Queue>::CheckKeys(int64_t num_keys, const int64_t* keys) {
  if (options_.use_hash_index || num_keys == 0) return 0;
  const typename Scratch<Queue>::Frame frame(scratch_);
  auto* found = scratch_.template Take<DirectKeysFound>(1);
  queue_.FillBytes(found, 0xff, sizeof(DirectKeysFound));
  queue_.ForEach(num_keys, CheckDirectKeys{direct_rows(), keys, found});
  DirectKeysFound of_batch;
  queue_.CopyToHost(&of_batch, found, sizeof(of_batch));
  if (of_batch.first_foreign != UINT32_MAX) {
    int64_t key;
    queue_.CopyToHost(&key, keys + of_batch.first_foreign, sizeof(key));
    ThrowForeignKey(options_, key);
  }
  return int64_t{~of_batch.flipped_highest} + 1;
}

template <typename Queue>
TableCounters DeviceTable<Queue>::ReadCounters() {
  TableCounters counters;
  queue_.CopyToHost(&counters, this->counters(), sizeof(counters));
  NoteCounters(counters);
  return counters;
}

template <typename Queue>
void DeviceTable<Queue>::WriteCounters(const TableCounters& counters) {
  queue_.CopyFromHost(this->counters(), &counters, sizeof(counters));
  NoteCounters(counters);
}

template <typename Queue>
void DeviceTable<Queue>::NoteCounters(const TableCounters& counters) {
  late_counters_.Forget();
  most_keys_ = counters.num_keys;
  most_rows_ = counters.num_rows;
}

template <typename Queue>
TableSize DeviceTable<Queue>::Size(Call& call) {
  const Turn turn(*state_, call.stream());
  const TableCounters counters = ReadCounters();
  return {counters.num_keys, counters.num_rows};
}

template <typename Queue>
int64_t DeviceTable<Queue>::index_bytes() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return index_memory_.size_bytes();
}

template <typename Queue>
void DeviceTable<Queue>::Find(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) {
  CheckBatchSize(num_keys, kMaxBatch);
  const Turn turn(*state_, call.stream());
  CheckKeys(num_keys, keys);
  WithIndex([&](auto index) {
    queue_.ForEach(num_keys, FindRows<decltype(index)>{index, keys, row_ids});
  });
}

template <typename Queue>
void DeviceTable<Queue>::GatherRows(Call& call, int64_t num_keys, const int64_t* keys,
                                    const Plane& rows, float* out) {
  CheckBatchSize(num_keys, kMaxBatch);
  const Turn turn(*state_, call.stream());
  CheckKeys(num_keys, keys);
  auto* row_ids = scratch_.template Take<int64_t>(num_keys);
  const int64_t dim = options_.dim;
  WithElement(rows.data(), [&](auto* plane) {
    using Number = std::remove_pointer_t<decltype(plane)>;
    WithIndex([&](auto index) {
      WithPack(dim, {plane, out}, [&](auto pack) {
        using Pack = decltype(pack);
        queue_.ForEachLookThenMove(
            num_keys, dim / Pack::width,
            FindAndGather<Pack, Number, decltype(index)>{index, dim, keys, plane, row_ids, out});
      });
    });
  });
  FillAbsentRows(queue_, num_keys, dim, options_.first_value, keys, row_ids, out);
}

template <typename Queue>
void DeviceTable<Queue>::FindOrInsert(Call& call, const KeyBatch& batch, const Planes& planes,
                                      int64_t* row_ids) {
  CheckBatchSize(batch.num_keys, kMaxBatch);
  if (batch.num_keys == 0) return;
  const Turn turn(*state_, call.stream());
  Insert(batch, OnQueue(planes), row_ids);
}

template <typename Queue>
void DeviceTable<Queue>::Insert(const KeyBatch& batch, const QueuePlanes& planes,
                                int64_t* row_ids) {
  const int64_t end_row = CheckKeys(batch.num_keys, batch.keys);
  typename Scratch<Queue>::Frame frame(scratch_);
  const NewKeys new_keys = FindNewKeys(batch, row_ids);
  auto* new_rows = scratch_.template Take<int64_t>(batch.num_keys);
  if (options_.use_hash_index) {
    InsertHashed(batch.num_keys, new_keys, planes, new_rows);
  } else {
    InsertDirectly(end_row, new_keys, planes, new_rows);
  }
  WriteNewRows(new_keys, new_rows, batch.initial_rows, planes);
  queue_.ForEach(new_keys.num_missing,
                 FillMissing{new_keys.places, new_keys.numbers, new_rows, row_ids});
}

/// Makes room for the new keys, assigns their rows and counts them.
template <typename Queue>
void DeviceTable<Queue>::InsertHashed(int64_t num_keys, const NewKeys& new_keys,
                                      const QueuePlanes& planes, int64_t* new_rows) {
  const int64_t most_new = MakeRoom(num_keys, new_keys.count, planes);
  queue_.ForEach(new_keys.count,
                 InsertNewKeys{index(), new_keys.keys, free_rows_memory_.template as<uint32_t>(),
                               &counters()->num_free, &counters()->num_rows, new_rows});
  queue_.ForEach(1, CommitInserts{counters(), new_keys.count.exact});
  most_rows_ = MostRowsAfter(most_new);
  most_keys_ += most_new;
  most_inserts_since_ += most_new;
  if (!late_counters_.is_requested()) {
    late_counters_.Request(queue_, counters());
    most_inserts_since_ = 0;
  }
}

/// The same without a hash index; rows of the batch are below `end_row`.
template <typename Queue>
void DeviceTable<Queue>::InsertDirectly(int64_t end_row, const NewKeys& new_keys,
                                        const QueuePlanes& planes, int64_t* new_rows) {
  const bool grows = end_row > planes.RoomForRows(Limit());
  planes.Reserve(end_row);
  ReserveBits(end_row);
  if (grows) planes.ReserveAhead(end_row, Limit());
  queue_.ForEach(new_keys.count, InsertDirectKeys{direct_index(), new_keys.keys, new_rows});
  queue_.ForEach(1, CommitDirectInserts{counters(), new_keys.count.exact, end_row});
  most_rows_ = std::max(most_rows_, end_row);
}

/// Looks all keys up, and collects those that have no row.
template <typename Queue>
typename DeviceTable<Queue>::NewKeys DeviceTable<Queue>::FindNewKeys(const KeyBatch& batch,
                                                                     int64_t* row_ids) {
  const int64_t num_keys = batch.num_keys;
  const int64_t num_tiles = NumTiles(num_keys);
  auto* missing = scratch_.template Take<uint32_t>(num_tiles);
  auto* tile_sums = scratch_.template Take<int32_t>(num_tiles + 1);
  auto* missing_keys = scratch_.template Take<int64_t>(num_keys);
  auto* places = scratch_.template Take<int32_t>(num_keys);
  WithIndex([&](auto index) {
    queue_.ForEachVote(num_keys,
                       FindRowsAndMissing<decltype(index)>{index, batch.keys, row_ids, missing});
  });
  queue_.ExclusiveSum(num_tiles, TileCount{missing, num_keys}, tile_sums);
  queue_.ForEach(num_keys, CompactMissing{batch.keys, {missing, tile_sums}, missing_keys, places});
  const Count num_missing(num_keys, tile_sums + num_tiles);
  if (batch.keys_are_distinct)
    return {num_missing, missing_keys, places, num_missing, places, nullptr};
  auto* distinct = scratch_.template Take<int64_t>(num_keys);
  auto* first_positions = scratch_.template Take<int32_t>(num_keys);
  auto* numbers = scratch_.template Take<int32_t>(num_keys);
  const int32_t* num_new =
      DistinctKeys(queue_, scratch_, num_missing, missing_keys, distinct, first_positions, numbers);
  const Count num_new_keys(num_keys, num_new);
  queue_.ForEach(num_new_keys, PlaceFirst{places, first_positions});
  return {num_new_keys, distinct, first_positions, num_missing, places, numbers};
}

template <typename Queue>
void DeviceTable<Queue>::WriteNewRows(const NewKeys& new_keys, const int64_t* new_rows,
                                      const float* initial_rows, const QueuePlanes& planes) {
  const int64_t dim = options_.dim;
  const auto write_rows = [&](auto* plane) {
    using Number = std::remove_pointer_t<decltype(plane)>;
    if (initial_rows != nullptr) {
      ForEachPack(queue_, new_keys.count, dim, {plane, initial_rows}, [&](auto pack, auto grid) {
        return CopyGivenRows<decltype(pack), Number>{
            grid, dim, new_rows, new_keys.first_positions, initial_rows, plane};
      });
    } else if (options_.first_value.kind != FirstValue::Kind::kPreset) {
      ForEachPack(queue_, new_keys.count, dim, {plane}, [&](auto pack, auto grid) {
        return FillFirstValues<decltype(pack), Number>{
            grid, dim, options_.first_value, new_keys.keys, new_rows, plane};
      });
    }
  };
  if (planes.rows != nullptr) WithElement(planes.rows->data(), write_rows);
  for (const auto& slot : planes.slots) {
    const RowsView view = slot.rows->data();
    auto* values = view.template As<float>();
    ForEachPack(queue_, new_keys.count, view.width, {values}, [&](auto pack, auto grid) {
      return FillRows<decltype(pack)>{grid, view.width, new_rows, slot.initial_value, values};
    });
  }
  if (planes.salts != nullptr) {
    auto* salts = planes.salts->data().template As<Bfloat16>();
    queue_.ForEach(new_keys.count, WriteSalts{new_keys.keys, new_rows, salts});
  }
}

template <typename Queue>
TableEntries DeviceTable<Queue>::Export(Call& call) {
  int64_t* keys = nullptr;
  int64_t* row_ids = nullptr;
  int64_t capacity = -1;
  // The call's memory is allocated between turns, so others may insert keys meanwhile.
  for (;;) {
    {
      const Turn turn(*state_, call.stream());
      const TableCounters current = ReadCounters();
      if (current.num_keys <= capacity) {
        return {CopyEntries(0, current.num_rows, keys, row_ids), keys, row_ids};
      }
      capacity = current.num_keys;
    }
    keys = call.Temporary<int64_t>(capacity);
    row_ids = call.Temporary<int64_t>(capacity);
  }
}

template <typename Queue>
int64_t DeviceTable<Queue>::ExportRows(Call& call, int64_t first_row, int64_t num_rows,
                                       int64_t* keys, int64_t* row_ids) {
  const Turn turn(*state_, call.stream());
  const int64_t num_left = ReadCounters().num_rows - first_row;
  return num_left <= 0 ? 0 : CopyEntries(first_row, std::min(num_left, num_rows), keys, row_ids);
}

/// `first_row` is a multiple of the rows per mask.
template <typename Queue>
int64_t DeviceTable<Queue>::CopyEntries(int64_t first_row, int64_t num_rows, int64_t* keys,
                                        int64_t* row_ids) {
  const int64_t num_tiles = NumTiles(num_rows);
  auto* keys_by_row = scratch_.template Take<int64_t>(num_rows);
  auto* tile_sums = scratch_.template Take<int32_t>(num_tiles + 1);
  uint32_t* masks = nullptr;
  if (options_.use_hash_index) {
    auto* has_key = scratch_.template Take<unsigned char>(num_rows);
    masks = scratch_.template Take<uint32_t>(num_tiles);
    queue_.FillBytes(has_key, 0, num_rows);
    queue_.ForEach(num_buckets_,
                   KeysByRow{index().buckets, first_row, num_rows, keys_by_row, has_key});
    queue_.ForEachVote(num_rows, VoteHasKey{has_key, masks});
  } else {
    masks = direct_index().bits + NumTiles(first_row);
    queue_.ForEach(num_rows, KeysOfRows{direct_rows(), first_row, keys_by_row});
  }
  queue_.ExclusiveSum(num_tiles, TileCount{masks, num_rows}, tile_sums);
  queue_.ForEach(num_rows,
                 CompactEntries{first_row, keys_by_row, {masks, tile_sums}, keys, row_ids});
  int32_t count = 0;
  queue_.CopyToHost(&count, tile_sums + num_tiles, sizeof(count));
  return count;
}

template <typename Queue>
void DeviceTable<Queue>::Clear(Call& call) {
  const Turn turn(*state_, call.stream());
  Empty();
}

template <typename Queue>
void DeviceTable<Queue>::Empty() {
  // Starts with a new, small index, so that a cleared table costs as little as a new one.
  const int64_t num_buckets = options_.use_hash_index ? kMinBuckets : 0;
  index_memory_ =
      DeviceBuffer<Queue>(queue_, num_buckets * static_cast<int64_t>(sizeof(DeviceBucket)));
  num_buckets_ = num_buckets;
  queue_.ForEach(num_buckets_, ClearBuckets{index().buckets});
  queue_.FillBytes(counters(), 0, sizeof(TableCounters));
  NoteCounters({});
  num_kept_ = 0;
}

template <typename Queue>
void DeviceTable<Queue>::InsertAll(Call& call, const Planes& planes) {
  if (options_.use_hash_index) return;
  constexpr int64_t kSliceRows = 1 << 20;
  const Turn turn(*state_, call.stream());
  const DirectRows rows = direct_rows();
  const int64_t slice = std::min(kSliceRows, rows.num_rows);
  auto* keys = scratch_.template Take<int64_t>(slice);
  auto* row_ids = scratch_.template Take<int64_t>(slice);
  for (int64_t begin = 0; begin < rows.num_rows; begin += slice) {
    const int64_t count = std::min(slice, rows.num_rows - begin);
    queue_.ForEach(count, KeysOfRows{rows, begin, keys});
    Insert({count, keys, true}, OnQueue(planes), row_ids);
  }
}

template <typename Queue>
int64_t DeviceTable<Queue>::FirstWithoutRow(Call& call, int64_t count, const int64_t* row_ids) {
  const Turn turn(*state_, call.stream());
  auto* first = scratch_.template Take<uint32_t>(1);
  queue_.FillBytes(first, 0xff, sizeof(uint32_t));
  queue_.ForEach(count, FindFirstWithoutRow{row_ids, RowsInUse(), first});
  uint32_t position = 0;
  queue_.CopyToHost(&position, first, sizeof(position));
  return position == UINT32_MAX ? count : int64_t{position};
}

template <typename Queue>
void DeviceTable<Queue>::ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes,
                                     int64_t num_gradients, const int64_t* row_ids,
                                     const float* gradients) {
  const Turn turn(*state_, call.stream());
  std::visit(
      [&](const auto& one_rule) {
        sok::ApplyToRows(queue_, one_rule, planes, RowsInUse(), num_gradients, row_ids, gradients);
      },
      rule);
}

template <typename Queue>
void DeviceTable<Queue>::ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                                          int64_t num_gradients, const int64_t* row_ids,
                                          const float* gradients) {
  const Turn turn(*state_, call.stream());
  const Count in_use = RowsInUse();
  auto* has_gradient = scratch_.template Take<unsigned char>(in_use.bound);
  std::visit(
      [&](const auto& one_rule) {
        ApplyToAllRows(queue_, one_rule, planes, in_use, num_gradients, row_ids, gradients,
                       has_gradient, options_.use_hash_index ? nullptr : direct_index().bits);
      },
      rule);
}

}  // namespace sok
