// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cuda_queue.cuh"
#include "ops/cuda/stored_cuda_table.h"
#include "ops/device/stored_device_table.h"

namespace sok {
namespace {

cudaStream_t Stream(CudaStreamHandle handle) { return static_cast<cudaStream_t>(handle); }

}  // namespace

struct StoredCudaTable::State {
  State(const TableOptions& options, int device) : queue(device), table(queue, options) {}

  CudaQueue queue;
  StoredDeviceTable<CudaQueue> table;
};

StoredCudaTable::StoredCudaTable(const TableOptions& options, int device)
    : state_(std::make_unique<State>(options, device)) {}

StoredCudaTable::~StoredCudaTable() = default;

int64_t StoredCudaTable::dim() const { return state_->table.dim(); }
int64_t StoredCudaTable::size() { return state_->table.size(nullptr); }
int64_t StoredCudaTable::index_bytes() const { return state_->table.index_bytes(); }
int64_t StoredCudaTable::row_bytes() const { return state_->table.row_bytes(); }

void StoredCudaTable::Find(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys,
                           int64_t* row_ids) {
  state_->table.Find(Stream(stream), num_keys, keys, row_ids);
}

void StoredCudaTable::Insert(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys,
                             const float* initial_rows, int64_t* row_ids) {
  state_->table.Insert(Stream(stream), num_keys, keys, initial_rows, row_ids);
}

void StoredCudaTable::Gather(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys,
                             float* rows) {
  state_->table.Gather(Stream(stream), num_keys, keys, rows);
}

int64_t StoredCudaTable::ScatterAdd(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys,
                                    const float* values) {
  return state_->table.ScatterAdd(Stream(stream), num_keys, keys, values);
}

int64_t StoredCudaTable::Assign(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys,
                                const float* values) {
  return state_->table.Assign(Stream(stream), num_keys, keys, values);
}

int64_t StoredCudaTable::Erase(CudaStreamHandle stream, int64_t num_keys, const int64_t* keys) {
  return state_->table.Erase(Stream(stream), num_keys, keys);
}

int64_t StoredCudaTable::Export(CudaStreamHandle stream, int64_t room, int64_t* keys, float* rows) {
  return state_->table.Export(Stream(stream), room, keys, rows);
}

void StoredCudaTable::Clear(CudaStreamHandle stream) { state_->table.Clear(Stream(stream)); }

}  // namespace sok
