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

/// The table behind TableOnQueue: the same row ids, on arrays in device memory. Without a hash
/// index every call with keys waits, to throw kInvalidArgument for one that is out of range, and
/// memory reaches up to the highest row.
///
/// Calls may use any stream; they take effect in the order in which they were made. Calls, and
/// other users of the queue, must not overlap. A call returns before its kernels have run, except
/// where it says "waits": then the host waits for all earlier calls. Arrays given to a call must
/// live until its kernels have run.
template <typename Queue>
class DeviceTable {
 public:
  using Stream = typename Queue::Stream;
  using Planes = DevicePlanes<Queue>;

  /// Most keys of a batch.
  static constexpr int64_t kMaxBatch = int64_t{1} << 30;
  /// Most keys of a table.
  static constexpr int64_t kMaxKeys = INT32_MAX;
  /// The load of the index, in percent of its slots, above which it grows.
  static constexpr int64_t kMaxLoadPercent = 80;

  /// Throws the errors of CheckTableOptions, and kInvalidArgument for a capacity above kMaxKeys
  /// without a hash index.
  DeviceTable(Queue& queue, const TableOptions& options);

  const TableOptions& options() const { return options_; }
  int64_t index_bytes() const { return index_memory_.size_bytes(); }
  int64_t scratch_bytes() const { return scratch_.size_bytes(); }

  /// The table's current counters. Waits.
  TableCounters Counters(Stream stream);

  /// row_ids[i] = row of keys[i], or kNoRow.
  void Find(Stream stream, int64_t num_keys,
            const int64_t* keys,  // [num_keys], repeats allowed
            int64_t* row_ids);    // [num_keys]

  /// As Find, and out[i] = the row of keys[i] in the plane of rows; if there is none, its first
  /// value, or, with FirstValue::Kind::kPreset, out[i] unchanged.
  void FindAndGatherRows(Stream stream, int64_t num_keys,
                         const int64_t* keys,  // [num_keys]
                         const GrowingRows<Queue>& rows,
                         int64_t* row_ids,  // [num_keys]
                         float* out);       // [num_keys, dim]

  /// As Find, but a missing key gets the next free row, in the order of `keys`, and the row its
  /// first value in every plane. Throws kOutOfCapacity if the new keys do not all fit, and
  /// kOutOfMemory if there is no memory for exactly the new keys; the table is then as it was.
  ///
  /// Waits only if `num_keys` new keys might not fit into the memory at hand, as far as the
  /// counters of earlier calls are known: when the table grows, and when it is within about two
  /// batches of its capacity.
  void FindOrInsert(Stream stream, int64_t num_keys,
                    const int64_t* keys,        // [num_keys]
                    bool are_distinct,          // no key is repeated, which saves time
                    const float* initial_rows,  // [num_keys, dim] for new keys, or nullptr
                    const Planes& planes,
                    int64_t* row_ids);  // [num_keys]

  /// Allocates for `num_keys` keys in all, so that calls need not grow the table before. Throws
  /// kOutOfMemory.
  void Reserve(Stream stream, int64_t num_keys, const Planes& planes);

  /// Erases those of the keys that the table holds, and returns their number. Waits.
  int64_t Erase(Stream stream, int64_t num_keys,
                const int64_t* keys);  // [num_keys], repeats allowed

  /// As Erase, but the rows are not reused until ReturnRows. Waits.
  int64_t Evict(Stream stream, int64_t num_keys, const int64_t* keys);

  /// Releases `num_rows` rows of evicted keys, in the order of eviction, for new keys. Waits.
  void ReturnRows(Stream stream, int64_t num_rows);

  /// Writes all keys with their rows, in the order of row ids, and returns their number. Writes
  /// nothing if that is above `room`. Waits.
  int64_t Export(Stream stream, int64_t room,
                 int64_t* keys,      // [room]
                 int64_t* row_ids);  // [room]

  /// As Table::ExportRows. Waits.
  int64_t ExportRows(Stream stream, int64_t first_row, int64_t num_rows,
                     int64_t* keys,      // capacity [num_rows]
                     int64_t* row_ids);  // capacity [num_rows]

  /// Erases all keys.
  void Clear(Stream stream);

  /// The number of rows ever assigned, for kernels of one call to the queue between calls to this
  /// table, by the same thread.
  Count RowsInUse() const {
    // Points at the low half of an int64 that is at most kMaxKeys: devices are little-endian.
    return {most_rows_, reinterpret_cast<const int32_t*>(&counters()->num_rows)};
  }
  /// For kernels that compute keys from rows. Without a hash index only.
  DirectRows direct_rows() const {
    return {options_.placement, options_.placement.NumRows(options_.capacity)};
  }
  /// As RowsInUse: one bit per row, set if its key has come. nullptr with a hash index.
  const uint32_t* BitsOfRows() const {
    return options_.use_hash_index ? nullptr : direct_index().bits;
  }

  /// For kernels with a search of their own, within the same call to the queue. With a hash index
  /// only.
  DeviceIndex index() const {
    return {index_memory_.template as<DeviceBucket>(), num_buckets_, HashSecret()};
  }

 private:
  static constexpr int64_t kMinBuckets = 64;
  static constexpr int64_t kGrowthPercent = 150;
  // An allocation for one batch is for this many batches, if there is enough memory: the host can
  // be this far ahead of the counters, which arrive late, without waiting.
  static constexpr int64_t kBatchesAhead = 4;

  struct NewKeys {
    Count count;                     // number of new keys
    const int64_t* keys;             // [count], distinct, in the order of first appearance
    const int32_t* first_positions;  // [count], in the batch
    Count num_missing;               // positions of the batch without a row
    const int32_t* places;           // [num_missing]
    const int32_t* numbers;          // [num_missing], index into `keys`; nullptr: 0, 1, ...
  };

  DirectIndex direct_index() const {
    const int64_t num_words = index_memory_.size_bytes() / static_cast<int64_t>(sizeof(uint32_t));
    return {index_memory_.template as<uint32_t>(), num_words, direct_rows()};
  }
  /// Calls use(index) with the table's kind of index.
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
  struct RowList {  // of erased or evicted keys
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
  DeviceBuffer<Queue> free_rows_memory_;  // [num_free], the next one to reuse last
  DeviceBuffer<Queue> kept_rows_memory_;  // [num_kept], of evicted keys, in the order of eviction
  DeviceBuffer<Queue> counters_memory_;

  // Upper bounds of the counters on the device. They are exact once all calls have run, or follow
  // from a copy requested late_inserts_ ago.
  int64_t most_keys_ = 0;
  int64_t most_rows_ = 0;
  int64_t num_kept_ = 0;  // exactly
  typename Queue::template LateValue<TableCounters> late_counters_;
  int64_t most_inserts_since_ = 0;  // new keys since late_counters_ was requested
};

}  // namespace sok

#include "ops/device/device_table_growth_inl.h"
#include "ops/device/device_table_inl.h"

#endif  // SOK_OPS_DEVICE_DEVICE_TABLE_H_
