// SPDX-License-Identifier: Apache-2.0
// Makes a failing op fail its step on all ranks that take part in it.
#ifndef SOK_OPS_TF_BASE_STEP_FAILURE_H_
#define SOK_OPS_TF_BASE_STEP_FAILURE_H_

#include <utility>

#include "ops/tf/base/border.h"

namespace sok {

/// Sends the error of an op's context to the other ranks; no effect if this process trains alone.
/// Defined in ops/tf/ranks, which ops of one process do not include.
void FailStepOnRanks(tensorflow::OpKernelContext* ctx);

/// As FailOpOnThrow, for ops of a step in which other ranks take part: the step fails on them, too.
template <typename Body>
void FailStepOnThrow(tensorflow::OpKernelContext* ctx, Body&& body) {
  FailOpOnThrow(ctx, std::forward<Body>(body));
  if (!ctx->status().ok()) FailStepOnRanks(ctx);
}

}  // namespace sok

#endif  // SOK_OPS_TF_BASE_STEP_FAILURE_H_
