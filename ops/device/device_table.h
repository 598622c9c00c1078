// SPDX-License-Identifier: Apache-2.0
// A hash table in device memory: keys -> row ids, on a queue (a CUDA stream). No communication.
#ifndef SOK_OPS_DEVICE_DEVICE_TABLE_H_
#define SOK_OPS_DEVICE_DEVICE_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "ops/base/error.h"
#include "ops/device/kernels/direct_index.h"
#include "ops/device/kernels/distinct.h"
#include "ops/device/kernels/index_kernels.h"
#include "ops/device/kernels/new_key_kernels.h"
#include "ops/device/kernels/row_kernels.h"
#include "ops/device/memory/growing_rows.h"
#include "ops/device/memory/scratch.h"
#include "ops/engine/bags.h"
#include "ops/engine/table.h"

namespace sok {

/// What TableOnQueue makes a Table of: the same row ids, on arrays in device memory. Without a hash
/// index every call with keys waits, to throw kInvalidArgument for one that is out of range, and
/// memory goes up to the highest row.
///
/// Calls may have any stream; they take effect in the order in which they were made. They, and
/// whoever else uses the queue, come one at a time. They return before their kernels have run,
/// except where it says "waits": then the host waits for all earlier calls. Arrays given to a call
/// must live until its kernels have run.
template <typename Queue>
class DeviceTable {
 public:
  using Stream = typename Queue::Stream;
  using Planes = DevicePlanes<Queue>;

  /// Largest batch.
  static constexpr int64_t kMaxBatch = int64_t{1} << 30;
  /// Most keys that a table holds.
  static constexpr int64_t kMaxKeys = INT32_MAX;
  /// Keys per slot of the index before it grows.
  static constexpr int64_t kMaxLoadPercent = 80;

  /// Throws kInvalidArgument as CheckTableOptions, and without a hash index for a capacity above
  /// kMaxKeys.
  DeviceTable(Queue& queue, const TableOptions& options);

  const TableOptions& options() const { return options_; }
  int64_t index_bytes() const { return index_memory_.size_bytes(); }
  int64_t scratch_bytes() const { return scratch_.size_bytes(); }

  /// What the table holds now. Waits.
  TableCounters Counters(Stream stream);

  /// row_ids[i] = row of keys[i], or kNoRow.
  void Find(Stream stream, int64_t num_keys,
            const int64_t* keys,  // [num_keys], repeats allowed
            int64_t* row_ids);    // [num_keys]

  /// As Find, and out[i] = the row of keys[i] in the plane of rows; where there is none, its first
  /// value, or, with FirstValue::Kind::kPreset, what was in `out`.
  void FindAndGatherRows(Stream stream, int64_t num_keys,
                         const int64_t* keys,  // [num_keys]
                         const GrowingRows<Queue>& rows,
                         int64_t* row_ids,  // [num_keys]
                         float* out);       // [num_keys, dim]

  /// As Find, but a key that is not held gets the next free row, in the order of `keys`, and the
  /// row its first value in every plane. Throws kOutOfCapacity when the new keys do not all fit,
  /// kOutOfMemory when there is no memory for just the new keys; the table is then as before the
  /// call.
  ///
  /// Waits only when `num_keys` new keys might not fit into the memory that is there, judged by
  /// what earlier calls are known to have left: when the table grows, and while it has less than
  /// about two batches to go to its capacity.
  void FindOrInsert(Stream stream, int64_t num_keys,
                    const int64_t* keys,        // [num_keys]
                    bool are_distinct,          // no key stands twice in `keys`: saves time
                    const float* initial_rows,  // [num_keys, dim] for new keys, or nullptr
                    const Planes& planes,
                    int64_t* row_ids);  // [num_keys]

  /// Makes memory for `num_keys` keys in all, so that calls need not grow the table up to there.
  /// Throws kOutOfMemory.
  void Reserve(Stream stream, int64_t num_keys, const Planes& planes);

  /// Forgets the keys that are held, and returns how many were. Waits.
  int64_t Erase(Stream stream, int64_t num_keys,
                const int64_t* keys);  // [num_keys], repeats allowed

  /// As Erase, but the rows are kept from new keys until ReturnRows. Waits.
  int64_t Evict(Stream stream, int64_t num_keys, const int64_t* keys);

  /// Lets new keys have `num_rows` rows of evicted keys, the first ones first. Waits.
  void ReturnRows(Stream stream, int64_t num_rows);

  /// Writes all keys with their rows, in the order of row ids, and returns how many they are. Where
  /// there is room for fewer, nothing is written. Waits.
  int64_t Export(Stream stream, int64_t room,
                 int64_t* keys,      // [room]
                 int64_t* row_ids);  // [room]

  /// As Table::ExportRows. Waits.
  int64_t ExportRows(Stream stream, int64_t first_row, int64_t num_rows,
                     int64_t* keys,      // [num_rows] of room
                     int64_t* row_ids);  // [num_rows] of room

  /// Forgets every key.
  void Clear(Stream stream);

  /// Rows that were ever handed out, for kernels of one call to the queue between calls to this
  /// table; the same thread makes both.
  Count RowsInUse() const {
    // The low half of an int64 that is at most kMaxKeys, on processors that keep it first.
    return {most_rows_, reinterpret_cast<const int32_t*>(&counters()->num_rows)};
  }
  /// For kernels that make keys of rows. Without a hash index.
  DirectRows direct_rows() const {
    return {options_.placement, options_.placement.NumRows(options_.capacity)};
  }
  /// As RowsInUse: one bit for each row whose key has come. With a hash index, nullptr.
  const uint32_t* BitsOfRows() const {
    return options_.use_hash_index ? nullptr : direct_index().bits;
  }

  /// For kernels that search by themselves, within the same call to the queue. With a hash index.
  DeviceIndex index() const { return {index_memory_.template as<DeviceBucket>(), num_buckets_}; }

 private:
  static constexpr int64_t kMinBuckets = 64;
  static constexpr int64_t kGrowthPercent = 150;
  // Memory for this many batches is made when it is made for one, as far as there is memory: so far
  // ahead of the counters that come back late may the host run without waiting.
  static constexpr int64_t kBatchesAhead = 4;

  struct NewKeys {
    Count count;                     // of new keys
    const int64_t* keys;             // [count], distinct, in the order of first appearance
    const int32_t* first_positions;  // [count], in the batch
    Count num_missing;               // places of the batch without a row
    const int32_t* places;           // [num_missing]
    const int32_t* numbers;          // [num_missing], of `keys`; nullptr: 0, 1, ...
  };

  DirectIndex direct_index() const {
    const int64_t num_words = index_memory_.size_bytes() / static_cast<int64_t>(sizeof(uint32_t));
    return {index_memory_.template as<uint32_t>(), num_words, direct_rows()};
  }
  /// Calls use(index) with the index of the kind that the table has.
  template <typename Use>
  void WithIndex(const Use& use) const {
    options_.use_hash_index ? use(index()) : use(direct_index());
  }

  int64_t CheckKeys(int64_t num_keys, const int64_t* keys);
  TableCounters ReadCounters();
  int64_t CopyHeld(int64_t first_row, int64_t num_rows, int64_t* keys, int64_t* row_ids);
  void TightenBounds();
  int64_t Limit() const { return std::min(options_.capacity, kMaxKeys); }
  int64_t RoomInIndex() const;
  int64_t MostRowsAfter(int64_t num_new) const;
  bool HasRoom(int64_t num_new, const Planes& planes) const;
  int64_t MakeRoom(int64_t num_keys, Count num_new_keys, const Planes& planes);
  void GrowIndex(int64_t needed, int64_t wanted);
  void ReserveBits(int64_t num_rows);
  void InsertHashed(int64_t num_keys, const NewKeys& new_keys, const Planes& planes,
                    int64_t* new_rows);
  void InsertDirectly(int64_t end_row, const NewKeys& new_keys, const Planes& planes,
                      int64_t* new_rows);
  NewKeys FindNewKeys(int64_t num_keys, const int64_t* keys, bool are_distinct, int64_t* row_ids);
  void WriteNewRows(const NewKeys& new_keys, const int64_t* new_rows, const float* initial_rows,
                    const Planes& planes);
  using Counter = decltype(&TableCounters::num_keys);
  struct RowList {  // of keys that are gone
    DeviceBuffer<Queue>* memory;
    Counter count;
  };
  int64_t EraseInto(const RowList& list, Stream stream, int64_t num_keys, const int64_t* keys);
  void ReserveRows(DeviceBuffer<Queue>* rows, int64_t num_in_use, int64_t num_needed);
  TableCounters* counters() const { return counters_memory_.template as<TableCounters>(); }

  Queue& queue_;
  const TableOptions options_;
  Scratch<Queue> scratch_;
  DeviceBuffer<Queue> index_memory_;      // buckets, or the bits of DirectIndex
  int64_t num_buckets_ = 0;               // 0 without a hash index
  DeviceBuffer<Queue> free_rows_memory_;  // [num_free], the next one to hand out last
  DeviceBuffer<Queue> kept_rows_memory_;  // [num_kept], of evicted keys, the first one first
  DeviceBuffer<Queue> counters_memory_;

  // What the host knows: the counters on the device are at most these. They are known when all
  // calls so far have run, or from a copy that was asked for late_inserts_ ago.
  int64_t most_keys_ = 0;
  int64_t most_rows_ = 0;
  int64_t num_kept_ = 0;  // exactly
  typename Queue::template LateValue<TableCounters> late_counters_;
  int64_t most_inserts_since_ = 0;  // new keys since late_counters_ was asked for
};

}  // namespace sok

#include "ops/device/device_table_growth_inl.h"
#include "ops/device/device_table_inl.h"

#endif  // SOK_OPS_DEVICE_DEVICE_TABLE_H_
