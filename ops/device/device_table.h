// SPDX-License-Identifier: Apache-2.0
// Table on a queue (a CUDA stream): an index of keys in device memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "ops/base/error.h"
#include "ops/device/device_plane.h"
#include "ops/device/device_state.h"
#include "ops/device/kernels/apply_rule.h"
#include "ops/device/kernels/direct_index.h"
#include "ops/device/kernels/distinct.h"
#include "ops/device/kernels/index_kernels.h"
#include "ops/device/kernels/new_key_kernels.h"
#include "ops/device/kernels/row_kernels.h"
#include "ops/engine/bags.h"
#include "ops/engine/table.h"

namespace sok {

/// Without a hash index every call with keys waits, to throw kInvalidArgument for one that is out
/// of range, and memory reaches up to the highest row. FindOrInsert waits only if `num_keys` new
/// keys might not fit into the memory at hand, as far as the counters of earlier calls are known:
/// when the table grows, and when it is within about two batches of its capacity.
template <typename Queue>
class DeviceTable : public Table {
 public:
  /// Most keys of a batch.
  static constexpr int64_t kMaxBatch = int64_t{1} << 30;
  /// Most keys of a table.
  static constexpr int64_t kMaxKeys = kMaxDeviceRows;
  /// The load of the index, in percent of its slots, above which it grows.
  static constexpr int64_t kMaxLoadPercent = 80;

  /// Throws the errors of CheckTableOptions, and kInvalidArgument for a capacity above kMaxKeys
  /// without a hash index. Nobody else may use the queue while a table is made or destroyed.
  DeviceTable(std::shared_ptr<DeviceState<Queue>> state, const TableOptions& options);

  const TableOptions& options() const override { return options_; }
  TableSize Size(Call& call) override;
  int64_t index_bytes() const override;
  void Find(Call& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids) override;
  void GatherRows(Call& call, int64_t num_keys, const int64_t* keys, const Plane& rows,
                  float* out) override;
  void FindOrInsert(Call& call, const KeyBatch& batch, const Planes& planes,
                    int64_t* row_ids) override;
  void Reserve(Call& call, int64_t num_keys, const Planes& planes) override;
  int64_t Erase(Call& call, int64_t num_keys, const int64_t* keys) override;
  int64_t Evict(Call& call, int64_t num_keys, const int64_t* keys) override;
  void ReturnRows(Call& call, int64_t num_rows) override;
  TableEntries Export(Call& call) override;
  int64_t ExportRows(Call& call, int64_t first_row, int64_t num_rows, int64_t* keys,
                     int64_t* row_ids) override;
  void Clear(Call& call) override;
  void InsertAll(Call& call, const Planes& planes) override;
  int64_t FirstWithoutRow(Call& call, int64_t count, const int64_t* row_ids) override;
  void ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes, int64_t num_gradients,
                   const int64_t* row_ids, const float* gradients) override;
  void ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                        int64_t num_gradients, const int64_t* row_ids,
                        const float* gradients) override;

  /// For kernels with a search of their own. With a hash index only.
  DeviceIndex index() const {
    return {index_memory_.template as<DeviceBucket>(), num_buckets_, HashSecret()};
  }

 private:
  // Calls below but Turn run within one.
  using Turn = DeviceTurn<Queue>;
  using QueuePlanes = DevicePlanes<Queue>;

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

  static QueuePlanes OnQueue(const Planes& planes);

  /// The number of rows ever assigned, for kernels.
  Count RowsInUse() const {
    // Points at the low half of an int64 that is at most kMaxKeys: devices are little-endian.
    return {most_rows_, reinterpret_cast<const int32_t*>(&counters()->num_rows)};
  }
  DirectRows direct_rows() const {
    return {options_.placement, options_.placement.NumRows(options_.capacity)};
  }
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
  void WriteCounters(const TableCounters& counters);
  void NoteCounters(const TableCounters& counters);
  void Empty();
  void Insert(const KeyBatch& batch, const QueuePlanes& planes, int64_t* row_ids);
  int64_t CopyEntries(int64_t first_row, int64_t num_rows, int64_t* keys, int64_t* row_ids);
  void TightenBounds();
  int64_t Limit() const { return std::min(options_.capacity, kMaxKeys); }
  int64_t RoomInIndex() const;
  int64_t MostRowsAfter(int64_t num_new) const;
  bool HasRoom(int64_t num_new, const QueuePlanes& planes) const;
  int64_t MakeRoom(int64_t num_keys, Count num_new_keys, const QueuePlanes& planes);
  void GrowIndex(int64_t needed, int64_t wanted);
  void ReserveBits(int64_t num_rows);
  void InsertHashed(int64_t num_keys, const NewKeys& new_keys, const QueuePlanes& planes,
                    int64_t* new_rows);
  void InsertDirectly(int64_t end_row, const NewKeys& new_keys, const QueuePlanes& planes,
                      int64_t* new_rows);
  NewKeys FindNewKeys(const KeyBatch& batch, int64_t* row_ids);
  void WriteNewRows(const NewKeys& new_keys, const int64_t* new_rows, const float* initial_rows,
                    const QueuePlanes& planes);
  using Counter = decltype(&TableCounters::num_keys);
  struct RowList {  // of erased or evicted keys
    DeviceBuffer<Queue>* memory;
    Counter count;
  };
  int64_t EraseInto(const RowList& list, int64_t num_keys, const int64_t* keys);
  void ReserveRows(DeviceBuffer<Queue>* rows, int64_t num_in_use, int64_t num_needed);
  TableCounters* counters() const { return counters_memory_.template as<TableCounters>(); }

  const std::shared_ptr<DeviceState<Queue>> state_;
  Queue& queue_;
  Scratch<Queue>& scratch_;
  const TableOptions options_;
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
