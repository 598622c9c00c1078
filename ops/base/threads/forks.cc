// SPDX-License-Identifier: Apache-2.0
#include "ops/base/threads/forks.h"

#include <pthread.h>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr int kCallBits = 32;

uint64_t ForksIn(uint64_t state) { return state >> kCallBits; }
uint64_t CallsIn(uint64_t state) { return state & ((uint64_t{1} << kCallBits) - 1); }
uint64_t ForksNow() { return static_cast<uint64_t>(ForkCount()); }

}  // namespace

int ForkCount() {
  static std::atomic<int> count{0};
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++count; });
  static_cast<void>(registered);
  return count;
}

bool CallsInProgress::WereInterrupted() const {
  const uint64_t state = state_;
  return ForksIn(state) != ForksNow() && CallsIn(state) > 0;
}

void CallsInProgress::Begin(const char* name) {
  const uint64_t forks = ForksNow();
  uint64_t state = state_;
  uint64_t calls;
  do {
    if (ForksIn(state) != forks && CallsIn(state) > 0) {
      Throw(ErrorCode::kFailedPrecondition, "table '", name,
            "' was in use by another thread when this process was forked, and cannot be used "
            "here: fork while no call runs, or create the table in the child");
    }
    calls = ForksIn(state) == forks ? CallsIn(state) + 1 : 1;
  } while (!state_.compare_exchange_weak(state, forks << kCallBits | calls));
}

}  // namespace sok
