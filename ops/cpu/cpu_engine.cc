// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/cpu_engine.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <variant>

#include "ops/base/error.h"
#include "ops/base/first_appearance.h"
#include "ops/base/wide_vectors.h"
#include "ops/cpu/cpu_call.h"
#include "ops/cpu/cpu_plane.h"
#include "ops/cpu/index/direct_table.h"
#include "ops/cpu/index/hash_table.h"
#include "ops/cpu/rows/gather_rows.h"
#include "ops/cpu/rows/merge_gradients.h"
#include "ops/cpu/rows/pool_rows.h"

namespace sok {
namespace {

constexpr int64_t kChecksPerNanosecond = 8;
constexpr int64_t kCopyBytesPerNanosecond = 8;
constexpr int64_t kFloatsPerNanosecond = 2;

/// Calls body(begin, end) on parts of [0, count); `per_nanosecond` items take a nanosecond.
template <typename Body>
void ForParts(Executor& executor, int64_t count, int64_t per_nanosecond, const Body& body) {
  const int64_t num_units = (count + per_nanosecond - 1) / per_nanosecond;
  executor.ParallelFor(num_units, 1, [&](int64_t begin, int64_t end) {
    body(begin * per_nanosecond, std::min(end * per_nanosecond, count));
  });
}

/// The largest value; negative ones count as larger than all others.
SOK_WIDE_VECTORS uint32_t LargestOf(const int32_t* values, int64_t begin, int64_t end) {
  uint32_t largest = 0;
  for (int64_t i = begin; i < end; ++i) {
    largest = std::max(largest, static_cast<uint32_t>(values[i]));
  }
  return largest;
}

bool AllBelow(Executor& executor, int64_t count, const int32_t* values, int64_t limit) {
  std::atomic<bool> all_below{true};
  ForParts(executor, count, kChecksPerNanosecond, [&](int64_t begin, int64_t end) {
    if (begin < end && LargestOf(values, begin, end) >= limit) all_below = false;
  });
  return all_below;
}

/// How many values at [begin, end) are larger than their successors.
SOK_WIDE_VECTORS int64_t NumDescents(const int64_t* values, int64_t begin, int64_t end) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i) count += values[i] > values[i + 1];
  return count;
}

bool Ascend(Executor& executor, int64_t count, const int64_t* values) {
  std::atomic<bool> all_ascend{true};
  ForParts(executor, count - 1, kChecksPerNanosecond, [&](int64_t begin, int64_t end) {
    if (NumDescents(values, begin, end) > 0) all_ascend = false;
  });
  return all_ascend;
}

/// On several threads if large: a plane may have many GB.
void Copy(Executor& executor, void* to, const void* from, int64_t bytes) {
  constexpr int64_t kSmallBytes = int64_t{4} << 20;
  if (bytes <= kSmallBytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  ForParts(executor, bytes, kCopyBytesPerNanosecond, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

class EngineOfHost : public Engine {
 public:
  std::shared_ptr<Table> MakeTable(const TableOptions& options) override {
    CheckTableOptions(options);
    if (options.use_hash_index) return std::make_shared<CpuHashTable>(options);
    return std::make_shared<CpuDirectTable>(options);
  }
  std::shared_ptr<Plane> MakePlane(const PlaneOptions& options) override {
    if (options.storage) return std::make_shared<FilePlane>(options);
    return std::make_shared<CpuPlane>(options);
  }
  std::unique_ptr<Call> MakeCall(Executor& executor, DeviceStream) override {
    return std::make_unique<CpuCall>(*this, executor);
  }
  bool IsHostMemory() const override { return true; }

  void CopyToHost(Call& call, void* to, const void* from, int64_t bytes) override {
    Copy(call.executor(), to, from, bytes);
  }
  void CopyFromHost(Call& call, void* to, const void* from, int64_t bytes) override {
    Copy(call.executor(), to, from, bytes);
  }
  void CopyOnDevice(Call& call, void* to, const void* from, int64_t bytes) override {
    Copy(call.executor(), to, from, bytes);
  }
  void Fill(Call& call, float* to, int64_t count, float value) override {
    ForParts(call.executor(), count, kFloatsPerNanosecond,
             [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, value); });
  }

  int64_t DistinctKeys(Call&, int64_t num_keys, KeysOfAnyType keys, int64_t* distinct_keys,
                       int32_t* inverse) override {
    CheckBatchSize(num_keys, kMaxBatchKeys);
    return std::visit(
        [&](const auto* typed) {
          return NumberByFirstAppearance(num_keys, typed, distinct_keys, inverse);
        },
        keys);
  }

  void GatherRows(Call& call, int64_t num_rows, const int64_t* row_ids, const RowsView& plane,
                  float* out) override {
    sok::GatherRows(call.executor(), num_rows, row_ids, plane, out);
  }
  void ScatterRows(Call& call, int64_t num_rows, const int64_t* row_ids, const float* rows,
                   const RowsView& plane) override {
    sok::ScatterRows(call.executor(), num_rows, row_ids, rows, plane);
  }
  void AddToRows(Call&, int64_t num_rows, const int64_t* row_ids, const float* values,
                 const RowsView& plane) override {
    sok::AddToRows(num_rows, row_ids, values, plane);
  }
  void AssignRows(Call&, int64_t num_rows, const int64_t* row_ids, const float* rows,
                  const RowsView& plane) override {
    sok::AssignRows(num_rows, row_ids, rows, plane);
  }
  void SumRows(Call& call, int64_t first_row, int64_t num_rows, const RowsView& plane,
               uint64_t* sums) override {
    sok::SumRows(call.executor(), num_rows, plane.From(first_row), sums);
  }
  void FillAbsentRows(Call& call, int64_t num_keys, int64_t dim, const FirstValue& first_value,
                      const int64_t* keys, const int64_t* row_ids, float* out) override {
    sok::FillAbsentRows(call.executor(), num_keys, dim, first_value, keys, row_ids, out);
  }

  void PoolRows(Call& call, const Bags& bags, const RowSource& source, float* out) override {
    sok::PoolRows(call.executor(), bags, source, out);
  }
  void MergeGradients(Call& call, const Bags& bags, int64_t dim, const float* gradients,
                      float* merged) override {
    sok::MergeGradients(call.executor(), bags, dim, gradients, merged);
  }
  void CheckBags(Call& call, const Bags& bags, const char* what) override {
    CheckLengths(bags, what);
    if (!AllBelow(call.executor(), bags.num_keys, bags.inverse, bags.num_distinct)) {
      Throw(ErrorCode::kInvalidArgument, what, ": inverse must be at least 0 and below ",
            bags.num_distinct, ", the number of distinct keys");
    }
    if (bags.combiner == Combiner::kNone || bags.num_bags == 0) return;
    if (bags.row_splits[0] != 0 || bags.row_splits[bags.num_bags] != bags.num_keys ||
        !Ascend(call.executor(), bags.num_bags + 1, bags.row_splits)) {
      Throw(ErrorCode::kInvalidArgument, what, ": row_splits must ascend from 0 to ", bags.num_keys,
            ", the number of keys");
    }
  }
};

}  // namespace

Engine& CpuEngine() {
  static EngineOfHost* const engine = new EngineOfHost;
  return *engine;
}

}  // namespace sok
