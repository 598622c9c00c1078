// SPDX-License-Identifier: Apache-2.0
#include "ops/engine/call.h"

#include "ops/engine/engine.h"

namespace sok {

bool Call::IsHostMemory() const { return engine().IsHostMemory(); }

void Call::CopyBytesToHost(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) engine().CopyToHost(*this, to, from, bytes);
}

void Call::CopyBytesFromHost(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) engine().CopyFromHost(*this, to, from, bytes);
}

}  // namespace sok
