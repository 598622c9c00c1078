// SPDX-License-Identifier: Apache-2.0
// The process's coordinator, and the C interface through which Python drives its rounds.
#ifndef SOK_OPS_TF_EXCHANGE_SERVICE_H_
#define SOK_OPS_TF_EXCHANGE_SERVICE_H_

#include <memory>
#include <string>

#include "ops/exchange/coordinator.h"
#include "ops/tf/border.h"

namespace sok {

/// The coordinator of this process; null where it trains alone.
std::shared_ptr<Coordinator> CurrentCoordinator();

/// Whether all ranks share memory, and exchange through it.
bool AllRanksShareMemory();

/// Submits, and runs a round on this thread where that is possible, for this request or others;
/// their `done` may be called before it returns, and end the step.
void SubmitAndRun(Coordinator& coordinator, ExchangeRequest request);

/// The step or function call that an op is part of; in eager code, none or one of its own.
StepId StepIdOf(tensorflow::OpKernelContext* ctx);

/// Whether ranks meet there by the order of calls: in functions and eager code. TensorFlow gives
/// session steps ids above zero, and calls of functions, as which it also runs ops of eager code,
/// ids below or none.
bool IsOrdered(tensorflow::OpKernelContext* ctx);

/// As FailOpOnThrow, for ops of a step that other ranks take part in: the step fails on them, too.
template <typename Body>
void FailStepOnThrow(tensorflow::OpKernelContext* ctx, Body&& body) {
  FailOpOnThrow(ctx, body);
  if (ctx->status().ok()) return;
  const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  if (coordinator) {
    coordinator->FailStep(StepIdOf(ctx), CodeOf(ctx->status()),
                          std::string(ctx->status().message()));
  }
}

}  // namespace sok

#endif  // SOK_OPS_TF_EXCHANGE_SERVICE_H_
