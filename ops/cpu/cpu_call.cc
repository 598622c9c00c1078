// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/cpu_call.h"

#include <cstdlib>

#include "ops/base/error.h"

namespace sok {

void CpuCall::Free::operator()(void* block) const { std::free(block); }

void* CpuCall::TemporaryBytes(int64_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  blocks_.emplace_back(std::aligned_alloc(kAlignment, rounded));
  if (!blocks_.back()) {
    Throw(ErrorCode::kOutOfMemory, "the system refused ", bytes, " bytes of temporary memory");
  }
  return blocks_.back().get();
}

}  // namespace sok
