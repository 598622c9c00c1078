// SPDX-License-Identifier: Apache-2.0
// What is measured: one filled table, and each operation on it beside its ceiling.
#ifndef SOK_BENCHMARKS_GPU_TABLE_SETTING_CUH_
#define SOK_BENCHMARKS_GPU_TABLE_SETTING_CUH_

#include <algorithm>
#include <memory>

#include "benchmarks/gpu/ceilings.cuh"
#include "benchmarks/gpu/timing.cuh"
#include "benchmarks/gpu/workload.cuh"
#include "ops/cuda/cuda_queue.cuh"
#include "ops/device/device_engine.h"
#include "ops/device/kernels/apply_rule.h"
#include "ops/device/kernels/merging.h"

namespace sok::benchmark {

template <typename Value>
class Array {
 public:
  Array(CudaQueue& queue, int64_t count)
      : buffer_(queue, count * static_cast<int64_t>(sizeof(Value))) {}
  Value* data() const { return buffer_.template as<Value>(); }

 private:
  DeviceBuffer<CudaQueue> buffer_;
};

/// Batches of keys that take turns, so that none is found in the cache, and what a search would
/// find out about each key.
struct Batches {
  static constexpr int kSets = 4;

  Batches(CudaQueue& queue, int64_t batch)
      : size(batch),
        keys(queue, kSets * batch),
        absent(queue, kSets * batch),
        places(queue, kSets * batch),
        rows(queue, kSets * batch) {}

  template <typename Value>
  Value* Of(const Array<Value>& array, int run) const {
    return array.data() + run % kSets * size;
  }

  int64_t size;
  Array<int64_t> keys;
  Array<int64_t> absent;
  Array<int64_t> places;
  Array<uint32_t> rows;
};

/// A table of one dim, filled so that its index has one load. dim is a multiple of 4.
class TableSetting {
 public:
  TableSetting(const std::shared_ptr<DeviceState<CudaQueue>>& state, cudaStream_t stream,
               int64_t num_keys, int64_t dim, int load_percent, int repeats)
      : engine_(state),
        call_(engine_.MakeCall(SerialExecutor(), stream)),
        queue_(state->queue),
        stream_(stream),
        num_keys_(num_keys),
        dim_(dim),
        load_percent_(load_percent),
        repeats_(repeats),
        scratch_(state->scratch),
        table_(state, Options(4 * num_keys, dim)),
        rows_(state, {4 * num_keys, dim}),
        state_(state, {4 * num_keys, 2 * dim}),
        planes_{&rows_, {{&state_, 0.0f}}} {
    // Buckets for `load_percent`, although the table itself would not grow before its largest load.
    table_.Reserve(*call_, num_keys * kMaxLoadPercent / load_percent, planes_);
    const int64_t chunk = std::min<int64_t>(num_keys, 1 << 20);
    const Array<int64_t> keys(queue_, chunk);
    const Array<int64_t> row_ids(queue_, chunk);
    for (int64_t begin = 0; begin < num_keys; begin += chunk) {
      {
        const QueueCall<CudaQueue> call(queue_, stream);
        queue_.ForEach(chunk, ConsecutiveKeys{begin, keys.data()});
      }
      table_.FindOrInsert(*call_, {chunk, keys.data(), true}, planes_, row_ids.data());
    }
    const QueueCall<CudaQueue> call(queue_, stream);  // not zeros: they may run faster
    queue_.ForEach(num_keys * dim, FillFloats{rows_.data().As<float>()});
    queue_.ForEach(num_keys * 2 * dim, FillFloats{state_.data().As<float>()});
  }

  /// `cumulated` as for ZipfKeys, or nullptr for uniform keys without repeats.
  void MeasureHeldKeys(int64_t batch, const double* cumulated) {
    const Case setting{dim_, load_percent_, batch, cumulated ? "Zipf 1.05" : "uniform"};
    const Batches batches(queue_, batch);
    MakeKeys(batches, cumulated);
    const Array<int64_t> row_ids(queue_, batch);
    const Array<float> values(queue_, batch * dim_);
    MeasureSearch(setting, batches, row_ids, cumulated == nullptr);
    MeasureGather(setting, batches, row_ids, values);
    MeasureDistinct(setting, batches);
    if (cumulated == nullptr) {
      MeasureAdam(setting, batches, values);
    } else {
      MeasureMerge(setting, batches, values);
    }
  }

  /// Inserts keys that the table does not hold. The last measurement: the table is fuller after it.
  void MeasureNewKeys(int64_t batch) {
    constexpr int kRuns = 3;
    const Case setting{dim_, load_percent_, batch, "new"};
    if (!HasRoomFor((kRuns + kWarmUps + 1) * batch)) return;
    const Array<int64_t> keys(queue_, (kRuns + kWarmUps) * batch);
    const Array<int64_t> places(queue_, batch);
    const Array<uint32_t> rows(queue_, batch);
    const Array<int64_t> row_ids(queue_, batch);
    const int64_t first_row = num_keys_;
    {
      const QueueCall<CudaQueue> call(queue_, stream_);
      queue_.ForEach((kRuns + kWarmUps) * batch, ConsecutiveKeys{num_keys_, keys.data()});
      queue_.ForEach(batch, KnownPlaces{table_.index(), keys.data(), places.data(), rows.data()});
    }
    const Array<DeviceBucket> others(queue_, table_.index().num_buckets);  // to write to
    const Timing ceiling = TimeCall([&](int) {
      queue_.ForEach(batch, ReadBuckets{table_.index().buckets, places.data(), row_ids.data()});
      queue_.ForEach(batch, WriteBuckets{others.data(), places.data()});
      queue_.FillBytes(rows_.data().From(first_row).data, 0, batch * dim_ * 4);
      queue_.FillBytes(state_.data().From(first_row).data, 0, batch * dim_ * 8);
    });
    const Timing time = Time(stream_, kRuns, [&](int run) {
      table_.FindOrInsert(*call_, {batch, keys.data() + run * batch, true}, planes_,
                          row_ids.data());
    });
    Print("find or insert, all new, first values and slots written", setting, time,
          ceiling.median_ms);
  }

  /// Whether that many keys fit before the index grows and has another load.
  bool HasRoomFor(int64_t num_new) const {
    const int64_t num_slots = table_.index().num_buckets * DeviceBucket::kSlots;
    return num_keys_ + num_new < num_slots * kMaxLoadPercent / 100;
  }

 private:
  static constexpr int64_t kMaxLoadPercent = DeviceTable<CudaQueue>::kMaxLoadPercent;
  using Pack = FloatPack<4>;

  static TableOptions Options(int64_t capacity, int64_t dim) {
    TableOptions options;
    options.name = "benchmark";
    options.dim = dim;
    options.capacity = capacity;
    options.first_value = {FirstValue::Kind::kUniform, -0.05f, 0.05f, FirstValueStream(1, "b")};
    return options;
  }

  template <typename Run>
  Timing TimeCall(const Run& run) {
    return Time(stream_, repeats_, [&](int number) {
      const QueueCall<CudaQueue> call(queue_, stream_);
      run(number);
    });
  }

  void MakeKeys(const Batches& batches, const double* cumulated) {
    const QueueCall<CudaQueue> call(queue_, stream_);
    for (int s = 0; s < Batches::kSets; ++s) {
      int64_t* keys = batches.Of(batches.keys, s);
      if (cumulated == nullptr) {
        queue_.ForEach(batches.size, ShuffledKeys{s * batches.size, num_keys_, keys});
      } else {
        queue_.ForEach(batches.size,
                       ZipfKeys{static_cast<uint64_t>(s), num_keys_, cumulated, keys});
      }
    }
    const int64_t count = Batches::kSets * batches.size;
    queue_.ForEach(count, ConsecutiveKeys{8 * num_keys_, batches.absent.data()});
    queue_.ForEach(count, KnownPlaces{table_.index(), batches.keys.data(), batches.places.data(),
                                      batches.rows.data()});
  }

  void MeasureSearch(const Case& setting, const Batches& batches, const Array<int64_t>& row_ids,
                     bool are_distinct) {
    const int64_t batch = setting.batch;
    const double ceiling =
        TimeCall([&](int run) {
          queue_.ForEach(batch, ReadBuckets{table_.index().buckets, batches.Of(batches.places, run),
                                            row_ids.data()});
        }).median_ms;
    const auto time_find = [&](const Array<int64_t>& keys) {
      return Time(stream_, repeats_, [&](int run) {
        table_.Find(*call_, batch, batches.Of(keys, run), row_ids.data());
      });
    };
    Print("find row ids, hits", setting, time_find(batches.keys), ceiling);
    Print("find row ids, all miss", setting, time_find(batches.absent), ceiling);
    if (!HasRoomFor(3 * batch)) return;
    const auto time_insert = [&](bool distinct) {
      return Time(stream_, repeats_, [&](int run) {
        table_.FindOrInsert(*call_, {batch, batches.Of(batches.keys, run), distinct}, planes_,
                            row_ids.data());
      });
    };
    if (are_distinct) Print("find or insert, hits, distinct", setting, time_insert(true), ceiling);
    Print("find or insert, hits", setting, time_insert(false), ceiling);
  }

  void MeasureGather(const Case& setting, const Batches& batches, const Array<int64_t>& row_ids,
                     const Array<float>& out) {
    const Timing ceiling = TimeCall([&](int run) {
      queue_.ForEachLookThenMove(
          setting.batch, dim_ / Pack::width,
          ReadBucketsAndRows<Pack>{table_.index().buckets, batches.Of(batches.places, run),
                                   batches.Of(batches.rows, run), dim_,
                                   rows_.data().As<const float>(), row_ids.data(), out.data()});
    });
    const Timing time = Time(stream_, repeats_, [&](int run) {
      table_.GatherRows(*call_, setting.batch, batches.Of(batches.keys, run), rows_, out.data());
    });
    Print("find and gather rows, hits", setting, time, ceiling.median_ms);
  }

  void MeasureDistinct(const Case& setting, const Batches& batches) {
    const Array<int64_t> distinct(queue_, setting.batch);
    const Array<int32_t> inverse(queue_, setting.batch);
    const Timing time = TimeCall([&](int run) {
      const Scratch<CudaQueue>::Frame frame(scratch_);
      DistinctKeys(queue_, scratch_, setting.batch, batches.Of(batches.keys, run), distinct.data(),
                   nullptr, inverse.data());
    });
    Print("distinct keys", setting, time, 0.0);
  }

  void MeasureAdam(const Case& setting, const Batches& batches, const Array<float>& gradients) {
    const AdamRule adam{1e-6f, 0.9f, 0.999f, 1e-7f};
    RulePlanes planes;
    planes.rows = rows_.data();
    planes.states[0] = state_.data();
    planes.states[1] = state_.data().FromColumn(dim_);
    const Array<int64_t> row_ids(queue_, Batches::kSets * setting.batch);
    table_.Find(*call_, Batches::kSets * setting.batch, batches.keys.data(), row_ids.data());
    {
      const QueueCall<CudaQueue> call(queue_, stream_);
      queue_.ForEach(setting.batch * dim_, FillFloats{gradients.data()});
    }
    const auto time = [&](const auto& rule) {
      return TimeCall([&](int run) {
        ApplyToRows(queue_, rule, planes, num_keys_, setting.batch, batches.Of(row_ids, run),
                    gradients.data());
      });
    };
    const Timing ceiling = time(TouchRule{});
    Print("fused LazyAdam on row ids", setting, time(adam), ceiling.median_ms);
  }

  void MeasureMerge(const Case& setting, const Batches& batches, const Array<float>& gradients) {
    const Array<int64_t> distinct(queue_, setting.batch);
    const Array<int32_t> inverse(queue_, setting.batch);
    const Array<float> merged(queue_, setting.batch * dim_);
    Bags bags;
    bags.num_keys = setting.batch;
    bags.num_bags = setting.batch;
    bags.inverse = inverse.data();
    {
      const QueueCall<CudaQueue> call(queue_, stream_);
      const Scratch<CudaQueue>::Frame frame(scratch_);
      queue_.ForEach(setting.batch * dim_, FillFloats{gradients.data()});
      const int32_t* num_distinct =
          DistinctKeys(queue_, scratch_, setting.batch, batches.keys.data(), distinct.data(),
                       nullptr, inverse.data());
      int32_t count = 0;
      queue_.CopyToHost(&count, num_distinct, sizeof(count));
      bags.num_distinct = count;
    }
    // Its ceiling: every gradient read and every sum written, once and in order.
    const Timing ceiling = TimeCall([&](int) {
      queue_.CopyOnDevice(merged.data(), gradients.data(), bags.num_distinct * dim_ * 4);
    });
    const Timing time = TimeCall([&](int) {
      MergeGradients(queue_, scratch_, bags, dim_, gradients.data(), merged.data());
    });
    const double read_share =
        0.5 * (1.0 + static_cast<double>(setting.batch) / static_cast<double>(bags.num_distinct));
    Print("merge gradients by key", setting, time, ceiling.median_ms * read_share);
  }

  DeviceEngine<CudaQueue> engine_;
  const std::unique_ptr<Call> call_;
  CudaQueue& queue_;
  cudaStream_t stream_;
  const int64_t num_keys_;
  const int64_t dim_;
  const int load_percent_;
  const int repeats_;
  Scratch<CudaQueue>& scratch_;
  DeviceTable<CudaQueue> table_;
  DevicePlane<CudaQueue> rows_;
  DevicePlane<CudaQueue> state_;
  const Planes planes_;
};

}  // namespace sok::benchmark

#endif  // SOK_BENCHMARKS_GPU_TABLE_SETTING_CUH_
