// SPDX-License-Identifier: Apache-2.0
// Where a call to an engine runs, threads or a stream, and memory that ends with the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/base/threads/executor.h"

namespace sok {

class Engine;

/// A cudaStream_t on a GPU; nullptr is CUDA's default stream. Ignored on the CPU.
using DeviceStream = void*;

/// Created by the caller for one op or method, and used by its thread only.
class Call {
 public:
  virtual ~Call() = default;

  virtual Engine& engine() const = 0;
  /// Threads for loops on the host.
  virtual Executor& executor() = 0;
  virtual DeviceStream stream() const = 0;

  /// `count` uninitialized values in the engine's memory, aligned to 64 bytes, valid until the call
  /// ends. Throws kOutOfMemory.
  template <typename Value>
  Value* Temporary(int64_t count) {
    return static_cast<Value*>(TemporaryBytes(count * static_cast<int64_t>(sizeof(Value))));
  }

  /// Waits if the engine's memory is not the host's.
  template <typename Value>
  void CopyToHost(Value* to, const Value* from, int64_t count) {
    CopyBytesToHost(to, from, count * static_cast<int64_t>(sizeof(Value)));
  }
  template <typename Value>
  void CopyFromHost(Value* to, const Value* from, int64_t count) {
    CopyBytesFromHost(to, from, count * static_cast<int64_t>(sizeof(Value)));
  }

  /// `values`, in the engine's memory, for the host to read: the values themselves, or a copy in
  /// `buffer`.
  template <typename Value>
  const Value* OnHost(const Value* values, int64_t count, std::vector<Value>* buffer) {
    if (IsHostMemory()) return values;
    buffer->resize(static_cast<size_t>(count));
    CopyToHost(buffer->data(), values, count);
    return buffer->data();
  }
  /// `values`, on the host, for the engine to read: the values themselves, or a temporary copy.
  template <typename Value>
  const Value* OnDevice(const Value* values, int64_t count) {
    if (IsHostMemory()) return values;
    Value* copy = Temporary<Value>(count);
    CopyFromHost(copy, values, count);
    return copy;
  }

 protected:
  virtual void* TemporaryBytes(int64_t bytes) = 0;

 private:
  bool IsHostMemory() const;
  void CopyBytesToHost(void* to, const void* from, int64_t bytes);
  void CopyBytesFromHost(void* to, const void* from, int64_t bytes);
};

}  // namespace sok
