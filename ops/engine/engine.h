// SPDX-License-Identifier: Apache-2.0
// What tables and lookups need of a device: the interface between ops/tf, ops/python and the
// engines. Batch-level virtual calls on pointers; no framework, no CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "ops/engine/bags.h"
#include "ops/engine/plane_options.h"
#include "ops/engine/table.h"

namespace sok {

using KeysOfAnyType = std::variant<const int64_t*, const uint32_t*, const int32_t*>;

/// Rows to pool. The row of distinct key d is plane[row_ids[d]], or absent_values[d] if row_ids[d]
/// < 0, or plane[d] if row_ids == nullptr.
struct RowSource {
  RowsView plane;                        // of width dim
  const int64_t* row_ids = nullptr;      // [num_distinct]
  const float* absent_values = nullptr;  // [num_distinct, dim]; nullptr: no row id is below 0
  const Planes* trained = nullptr;       // the table's, if the batch will update these rows
};

/// Calls and arrays as described at Table. "host": the array is in the host's memory.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Throws the errors of CheckTableOptions.
  virtual std::shared_ptr<Table> MakeTable(const TableOptions& options) = 0;
  /// Throws the errors of CheckPlaneOptions, and kOutOfMemory if the system refuses the address
  /// space.
  virtual std::shared_ptr<Plane> MakePlane(const PlaneOptions& options) = 0;
  /// A call whose temporary memory comes from the engine, for callers that have none. `executor`
  /// must outlive it.
  virtual std::unique_ptr<Call> MakeCall(Executor& executor, DeviceStream stream) = 0;
  /// Whether the host can read and write the engine's memory directly, which makes copies
  /// unnecessary.
  virtual bool IsHostMemory() const = 0;

  virtual void CopyToHost(Call& call, void* to, const void* from, int64_t bytes) = 0;  // waits
  /// `from` (host) may be reused on return.
  virtual void CopyFromHost(Call& call, void* to, const void* from, int64_t bytes) = 0;
  virtual void CopyOnDevice(Call& call, void* to, const void* from, int64_t bytes) = 0;
  virtual void Fill(Call& call, float* to, int64_t count, float value) = 0;

  /// Writes the distinct keys in the order of their first appearance, keys[i] ==
  /// distinct_keys[inverse[i]], and returns their number. Waits. At most kMaxBatchKeys keys.
  virtual int64_t DistinctKeys(Call& call, int64_t num_keys,
                               KeysOfAnyType keys,      // [num_keys]
                               int64_t* distinct_keys,  // capacity [num_keys], not `keys`
                               int32_t* inverse) = 0;   // [num_keys]

  // Rows outside of planes are float32 [num_rows, plane.width]; what is written to planes of two
  // bytes is rounded to nearest.

  /// out[i] = plane[row_ids[i]]; out[i] is unchanged if row_ids[i] < 0.
  virtual void GatherRows(Call& call, int64_t num_rows, const int64_t* row_ids,
                          const RowsView& plane, float* out) = 0;
  /// plane[row_ids[i]] = rows[i]; row_ids are distinct, those below 0 are skipped.
  virtual void ScatterRows(Call& call, int64_t num_rows, const int64_t* row_ids, const float* rows,
                           const RowsView& plane) = 0;
  /// plane[row_ids[i]] += values[i]; repeated row ids add up; none is below 0. The plane is
  /// float32.
  virtual void AddToRows(Call& call, int64_t num_rows, const int64_t* row_ids, const float* values,
                         const RowsView& plane) = 0;
  /// plane[row_ids[i]] = rows[i]; the last of repeated row ids wins; none is below 0.
  virtual void AssignRows(Call& call, int64_t num_rows, const int64_t* row_ids, const float* rows,
                          const RowsView& plane) = 0;
  /// sums[i] = RowSum(sums[i], plane[first_row + i]); see row_sum.h.
  virtual void SumRows(Call& call, int64_t first_row, int64_t num_rows, const RowsView& plane,
                       uint64_t* sums) = 0;  // [num_rows]
  /// out[i] = first value of keys[i] if row_ids[i] < 0; other rows, and all rows with kPreset, are
  /// unchanged.
  virtual void FillAbsentRows(Call& call, int64_t num_keys, int64_t dim,
                              const FirstValue& first_value, const int64_t* keys,
                              const int64_t* row_ids, float* out) = 0;

  /// out[b] = factor of bag b * sum over its keys i of weights[i] * row of inverse[i]; see Bags.
  virtual void PoolRows(Call& call, const Bags& bags, const RowSource& source,
                        float* out) = 0;  // [num_bags, dim]
  /// merged[d] = sum over the occurrences i of distinct key d of gradients[bag of i], each times
  /// the factors of PoolRows; zeros if d has no occurrence. The order of additions is fixed.
  virtual void MergeGradients(Call& call, const Bags& bags, int64_t dim,
                              const float* gradients,  // [num_bags, dim]
                              float* merged) = 0;      // [num_distinct, dim]
  /// Throws kInvalidArgument, naming `what`, unless every inverse[i] is in [0, num_distinct) and
  /// row_splits ascend from 0 to num_keys. On a device, checks lengths only.
  virtual void CheckBags(Call& call, const Bags& bags, const char* what) = 0;
};

}  // namespace sok
