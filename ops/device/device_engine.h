// SPDX-License-Identifier: Apache-2.0
// All that ops do on one device, behind virtual calls, for callers that nvcc does not compile.
#ifndef SOK_OPS_DEVICE_DEVICE_ENGINE_H_
#define SOK_OPS_DEVICE_DEVICE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/lookup/adagrad.h"
#include "ops/lookup/adam.h"
#include "ops/lookup/bags.h"
#include "ops/table/table.h"

namespace sok {

/// A cudaStream_t on a GPU; nullptr is CUDA's default stream. Ignored on CPU threads.
using DeviceStream = void*;

/// As GrowingRows: one place of `width` floats for each row id.
class EnginePlane {
 public:
  virtual ~EnginePlane() = default;
  virtual float* data() const = 0;  // [num_rows, width]; the address stays
  virtual int64_t width() const = 0;
  virtual int64_t num_rows() const = 0;  // rows that have memory
  /// As GrowingRows::Reserve.
  virtual void Reserve(int64_t num_rows) = 0;
};

/// The planes of a table, all of the engine that the table is of.
struct EnginePlanes {
  struct Slot {
    EnginePlane* plane;
    float initial_value;  // what a row holds when it appears
  };
  EnginePlane* rows = nullptr;  // of width dim, or nullptr: the caller fills the rows
  std::vector<Slot> slots;
};

/// As DeviceTable, call by call.
class EngineTable {
 public:
  struct Size {
    int64_t num_keys;
    int64_t num_rows;  // one past the highest row ever handed out
  };

  virtual ~EngineTable() = default;
  virtual const TableOptions& options() const = 0;
  virtual Size size(DeviceStream stream) = 0;  // waits
  virtual void Find(DeviceStream stream, int64_t num_keys,
                    const int64_t* keys,    // [num_keys]
                    int64_t* row_ids) = 0;  // [num_keys]
  virtual void FindOrInsert(DeviceStream stream, int64_t num_keys,
                            const int64_t* keys,  // [num_keys]
                            bool keys_are_distinct,
                            const float* initial_rows,  // [num_keys, dim], or nullptr
                            const EnginePlanes& planes,
                            int64_t* row_ids) = 0;  // [num_keys]
  virtual void Reserve(DeviceStream stream, int64_t num_keys, const EnginePlanes& planes) = 0;
  virtual int64_t Export(DeviceStream stream, int64_t room,
                         int64_t* keys,          // [room]
                         int64_t* row_ids) = 0;  // [room]; waits
  /// Without a hash index: gives every row its first value, as if all keys had come. With one:
  /// nothing.
  virtual void InsertAll(DeviceStream stream, const EnginePlanes& planes) = 0;
  /// The position of the first of `row_ids` that no row has, or num_rows. Waits.
  virtual int64_t FirstWithoutRow(DeviceStream stream, int64_t num_rows,
                                  const int64_t* row_ids) = 0;  // [num_rows]
  /// As ApplyAdamToAllRows, on the rows in use. `row_ids` are distinct.
  virtual void ApplyAdam(DeviceStream stream, const AdamStep& step, float* rows, float* state,
                         int64_t num_gradients,
                         const int64_t* row_ids,       // [num_gradients]
                         const float* gradients) = 0;  // [num_gradients, dim]
};

/// One device. Calls may come from any thread, take effect in the order in which they were made,
/// and return before their kernels have run, except where it says "waits". All arrays are in the
/// device's memory, except where it says "host".
class DeviceEngine {
 public:
  virtual ~DeviceEngine() = default;

  /// Throws kOutOfMemory when there is no address space for it.
  virtual std::shared_ptr<EnginePlane> MakePlane(int64_t capacity, int64_t width) = 0;
  /// As the constructor of DeviceTable.
  virtual std::shared_ptr<EngineTable> MakeTable(const TableOptions& options) = 0;

  virtual void CopyToHost(DeviceStream stream, void* to, const void* from, int64_t bytes) = 0;
  /// `from` may be reused on return.
  virtual void CopyFromHost(DeviceStream stream, void* to, const void* from, int64_t bytes) = 0;
  virtual void CopyOnDevice(DeviceStream stream, void* to, const void* from, int64_t bytes) = 0;
  virtual void Fill(DeviceStream stream, float* to, int64_t count, float value) = 0;

  /// As DistinctKeys of ops/device; returns the number of distinct keys. Waits.
  virtual int64_t DistinctKeys(DeviceStream stream, int64_t num_keys,
                               const int64_t* keys,     // [num_keys]
                               int64_t* distinct_keys,  // [num_keys] of room, not `keys`
                               int32_t* inverse) = 0;   // [num_keys]
  virtual void WidenKeys(DeviceStream stream, int64_t num_keys, const uint32_t* keys,
                         int64_t* wide_keys) = 0;

  virtual void GatherRows(DeviceStream stream, int64_t num_rows, int64_t dim,
                          const int64_t* row_ids, const float* plane, float* out) = 0;
  virtual void ScatterRows(DeviceStream stream, int64_t num_rows, int64_t dim,
                           const int64_t* row_ids, const float* rows, float* plane) = 0;
  virtual void FillAbsentRows(DeviceStream stream, int64_t num_keys, int64_t dim,
                              const FirstValue& first_value, const int64_t* keys,
                              const int64_t* row_ids, float* out) = 0;

  /// As PoolRows of ops/device, without weights. `absent_values` [num_distinct, dim] stand for rows
  /// with an id below 0; nullptr: there are none. With row_ids == nullptr the row of distinct key d
  /// is row d.
  virtual void PoolRows(DeviceStream stream, const Bags& bags, int64_t dim, const float* plane,
                        const int64_t* row_ids, const float* absent_values, float* out) = 0;
  virtual void MergeGradients(DeviceStream stream, const Bags& bags, int64_t dim,
                              const float* gradients,  // [num_bags, dim]
                              float* merged) = 0;      // [num_distinct, dim]

  /// On rows whose ids are distinct. `state`: see AdamRule and AdagradRule.
  virtual void ApplyLazyAdam(DeviceStream stream, const AdamStep& step, int64_t dim, float* rows,
                             float* state, int64_t num_gradients, const int64_t* row_ids,
                             const float* gradients) = 0;
  virtual void ApplyAdagrad(DeviceStream stream, const AdagradStep& step, int64_t dim, float* rows,
                            float* accumulator, int64_t num_gradients, const int64_t* row_ids,
                            const float* gradients) = 0;
};

/// The engine whose kernels run on CPU threads: what a GPU would compute, on any machine. Lives as
/// long as the process.
DeviceEngine& HostEngine();

}  // namespace sok

#endif  // SOK_OPS_DEVICE_DEVICE_ENGINE_H_
