// SPDX-License-Identifier: Apache-2.0
// A table on a GPU that owns its rows, for callers that nvcc does not compile.
#ifndef SOK_OPS_CUDA_STORED_CUDA_TABLE_H_
#define SOK_OPS_CUDA_STORED_CUDA_TABLE_H_

#include <cstdint>
#include <memory>

#include "ops/table/table.h"

namespace sok {

/// A cudaStream_t; nullptr is CUDA's default stream.
using CudaStreamHandle = void*;

/// StoredDeviceTable on one GPU; see ops/device/stored_device_table.h for what each call does. All
/// arrays are in that GPU's memory.
class StoredCudaTable {
 public:
  /// Throws kCuda if there is no such GPU, and as StoredDeviceTable.
  StoredCudaTable(const TableOptions& options, int device);
  ~StoredCudaTable();

  int64_t dim() const;
  int64_t size();
  int64_t index_bytes() const;
  int64_t row_bytes() const;
  void Find(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys, int64_t* row_ids);
  void Insert(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys,
              const float* initial_rows, int64_t* row_ids);
  void Gather(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys, float* rows);
  int64_t ScatterAdd(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys,
                     const float* values);
  int64_t Assign(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys,
                 const float* values);
  int64_t Erase(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys);
  int64_t Export(CudaStreamHandle stream, int64_t room, int64_t* keys, float* rows);
  void Clear(CudaStreamHandle stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sok

#endif  // SOK_OPS_CUDA_STORED_CUDA_TABLE_H_
