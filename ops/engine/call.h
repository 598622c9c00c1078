// SPDX-License-Identifier: Apache-2.0
// Where a call to an engine runs, threads or a stream, and memory that ends with the call.
#ifndef SOK_OPS_ENGINE_CALL_H_
#define SOK_OPS_ENGINE_CALL_H_

#include <cstdint>

#include "ops/base/threads/executor.h"

namespace sok {

/// A cudaStream_t on a GPU; nullptr is CUDA's default stream. Ignored on the CPU.
using DeviceStream = void*;

/// Created by the caller for one op or method, and used by its thread only.
class Call {
 public:
  virtual ~Call() = default;

  /// Threads for loops on the host.
  virtual Executor& executor() = 0;
  virtual DeviceStream stream() const = 0;

  /// `count` uninitialized values in the engine's memory, aligned to 64 bytes, valid until the call
  /// ends. Throws kOutOfMemory.
  template <typename Value>
  Value* Temporary(int64_t count) {
    return static_cast<Value*>(TemporaryBytes(count * static_cast<int64_t>(sizeof(Value))));
  }

 protected:
  virtual void* TemporaryBytes(int64_t bytes) = 0;
};

}  // namespace sok

#endif  // SOK_OPS_ENGINE_CALL_H_
