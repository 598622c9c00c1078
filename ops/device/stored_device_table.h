// SPDX-License-Identifier: Apache-2.0
// A device table that owns its rows: StoredTable of ops/python, for arrays in device memory.
#ifndef SOK_OPS_DEVICE_STORED_DEVICE_TABLE_H_
#define SOK_OPS_DEVICE_STORED_DEVICE_TABLE_H_

#include <cstdint>
#include <mutex>

#include "ops/device/device_table.h"
#include "ops/device/merging.h"
#include "ops/device/optimizers.h"

namespace sok {

/// last[d] = ~(the last position of distinct key d), from all ones.
struct FindLast {
  const int32_t* inverse;
  uint32_t* last;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    AtomicMin(last + inverse[i], ~static_cast<uint32_t>(i));
  }
};

struct FlipBits {
  uint32_t* words;

  SOK_HOST_DEVICE void operator()(int64_t i) const { words[i] = ~words[i]; }
};

/// Calls may come from any thread and stream, as those of DeviceTable. All arrays are on the
/// device.
template <typename Queue>
class StoredDeviceTable {
 public:
  using Stream = typename Queue::Stream;

  StoredDeviceTable(Queue& queue, const TableOptions& options)
      : queue_(queue),
        scratch_(queue),
        table_(queue, options),
        rows_(queue, std::min(options.capacity, DeviceTable<Queue>::kMaxKeys), options.dim) {}

  int64_t dim() const { return table_.options().dim; }
  int64_t index_bytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return table_.index_bytes();
  }
  /// Bytes of memory of the rows.
  int64_t row_bytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return rows_.size_bytes();
  }
  /// Keys held. Waits.
  int64_t size(Stream stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return table_.Counters(stream).num_keys;
  }

  /// As DeviceTable::Find.
  void Find(Stream stream, int64_t num_keys,
            const int64_t* keys,  // [num_keys]
            int64_t* row_ids) {   // [num_keys]
    const std::lock_guard<std::mutex> lock(mutex_);
    table_.Find(stream, num_keys, keys, row_ids);
  }

  /// As DeviceTable::FindOrInsert.
  void Insert(Stream stream, int64_t num_keys,
              const int64_t* keys,        // [num_keys]
              const float* initial_rows,  // [num_keys, dim], or nullptr: first values
              int64_t* row_ids) {         // [num_keys]
    const std::lock_guard<std::mutex> lock(mutex_);
    table_.FindOrInsert(stream, num_keys, keys, false, initial_rows, {&rows_, {}}, row_ids);
  }

  /// out[i] = the row of keys[i], or its first value if the table does not hold it.
  void Gather(Stream stream, int64_t num_keys,
              const int64_t* keys,  // [num_keys]
              float* out) {         // [num_keys, dim]
    const std::lock_guard<std::mutex> lock(mutex_);
    const typename Scratch<Queue>::Frame frame(scratch_);
    auto* row_ids = scratch_.template Take<int64_t>(num_keys);
    table_.FindAndGatherRows(stream, num_keys, keys, rows_, row_ids, out);
  }

  /// Adds values[i] to the row of keys[i]; the values of a repeated key are added up first. Returns
  /// the position of the first key that the table does not hold, and changes nothing then; num_keys
  /// if it holds all. Waits.
  int64_t ScatterAdd(Stream stream, int64_t num_keys,
                     const int64_t* keys,    // [num_keys]
                     const float* values) {  // [num_keys, dim]
    return UpdateRows(stream, num_keys, keys, [&](const Distinct& distinct) {
      Bags bags;
      bags.num_keys = num_keys;
      bags.num_distinct = num_keys;
      bags.inverse = distinct.inverse;
      bags.num_bags = num_keys;
      auto* sums = scratch_.template Take<float>(num_keys * dim());
      MergeGradients(queue_, scratch_, bags, {}, dim(), values, sums);
      ApplyToRows(queue_, SgdRule{-1.0f}, {dim(), rows_.data(), nullptr}, distinct.count,
                  distinct.row_ids, sums);
    });
  }

  /// As ScatterAdd, but the last of several values for one key takes the row's place.
  int64_t Assign(Stream stream, int64_t num_keys,
                 const int64_t* keys,    // [num_keys]
                 const float* values) {  // [num_keys, dim]
    return UpdateRows(stream, num_keys, keys, [&](const Distinct& distinct) {
      auto* last = scratch_.template Take<uint32_t>(num_keys);
      queue_.FillBytes(last, 0xff, num_keys * static_cast<int64_t>(sizeof(uint32_t)));
      queue_.ForEach(num_keys, FindLast{distinct.inverse, last});
      queue_.ForEach(distinct.count, FlipBits{last});
      const auto* sources = reinterpret_cast<const int32_t*>(last);
      float* rows = rows_.data();
      ForEachPack(queue_, distinct.count, dim(), {values, rows}, [&](auto pack, auto grid) {
        return CopyGivenRows<decltype(pack)>{grid, dim(), distinct.row_ids, sources, values, rows};
      });
    });
  }

  /// As DeviceTable::Erase.
  int64_t Erase(Stream stream, int64_t num_keys, const int64_t* keys) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return table_.Erase(stream, num_keys, keys);
  }

  /// As DeviceTable::Export, and out[i] = the row of keys[i].
  int64_t Export(Stream stream, int64_t room,
                 int64_t* keys,  // [room]
                 float* out) {   // [room, dim]
    const std::lock_guard<std::mutex> lock(mutex_);
    const typename Scratch<Queue>::Frame frame(scratch_);
    auto* row_ids = scratch_.template Take<int64_t>(room);
    const int64_t size = table_.Export(stream, room, keys, row_ids);
    const QueueCall<Queue> call(queue_, stream);
    GatherRows(queue_, size, dim(), row_ids, rows_.data(), out);
    return size;
  }

  /// Forgets all keys and gives the memory of their rows back. Waits for the device.
  void Clear(Stream stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    table_.Clear(stream);
    rows_.Release();
  }

 private:
  struct Distinct {
    Count count;             // of distinct keys
    const int64_t* row_ids;  // [count]
    const int32_t* inverse;  // [num_keys]
  };

  /// Calls update(distinct) within a call to the queue, if the table holds all keys.
  template <typename Update>
  int64_t UpdateRows(Stream stream, int64_t num_keys, const int64_t* keys, const Update& update) {
    if (num_keys == 0) return 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    const typename Scratch<Queue>::Frame frame(scratch_);
    auto* batch_row_ids = scratch_.template Take<int64_t>(num_keys);
    table_.Find(stream, num_keys, keys, batch_row_ids);
    const QueueCall<Queue> call(queue_, stream);
    const int64_t first_absent = FirstAbsent(num_keys, batch_row_ids);
    if (first_absent < num_keys) return first_absent;
    // Row ids are as good as keys to tell keys apart, and the distinct ones are what is needed.
    auto* row_ids = scratch_.template Take<int64_t>(num_keys);
    auto* inverse = scratch_.template Take<int32_t>(num_keys);
    const int32_t* num_distinct =
        DistinctKeys(queue_, scratch_, num_keys, batch_row_ids, row_ids, nullptr, inverse);
    update({Count(num_keys, num_distinct), row_ids, inverse});
    return num_keys;
  }

  /// The first i with row_ids[i] < 0, or num_keys.
  int64_t FirstAbsent(int64_t num_keys, const int64_t* row_ids);

  Queue& queue_;
  mutable std::mutex mutex_;  // held by every call: the queue serves one thread at a time
  Scratch<Queue> scratch_;
  DeviceTable<Queue> table_;
  GrowingRows<Queue> rows_;
};

/// first = ~0, then the smallest position without a row.
struct FindFirstAbsent {
  const int64_t* row_ids;
  uint32_t* first;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    if (row_ids[i] >= 0) return;
    const auto position = static_cast<uint32_t>(i);
    if (position < AtomicLoad(first)) AtomicMin(first, position);
  }
};

template <typename Queue>
int64_t StoredDeviceTable<Queue>::FirstAbsent(int64_t num_keys, const int64_t* row_ids) {
  auto* first = scratch_.template Take<uint32_t>(1);
  queue_.FillBytes(first, 0xff, sizeof(uint32_t));
  queue_.ForEach(num_keys, FindFirstAbsent{row_ids, first});
  uint32_t position = 0;
  queue_.CopyToHost(&position, first, sizeof(position));
  return position == UINT32_MAX ? num_keys : int64_t{position};
}

}  // namespace sok

#endif  // SOK_OPS_DEVICE_STORED_DEVICE_TABLE_H_
