// SPDX-License-Identifier: Apache-2.0
// Makes a failing op fail its step on all ranks that take part in it.
#pragma once

#include <atomic>
#include <utility>

#include "ops/tf/base/border.h"

namespace sok {

/// Called with the context of an op of a step that has failed; null unless the exchange between
/// ranks has set it.
inline std::atomic<void (*)(tf::OpKernelContext*)> on_step_failure{nullptr};

/// As FailOpOnThrow, for ops of a step in which other ranks take part: the step fails on them, too.
template <typename Body>
void FailStepOnThrow(tf::OpKernelContext* ctx, Body&& body) {
  FailOpOnThrow(ctx, std::forward<Body>(body));
  const auto tell = on_step_failure.load();
  if (tell != nullptr && !ctx->status().ok()) tell(ctx);
}

}  // namespace sok
