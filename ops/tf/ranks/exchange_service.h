// SPDX-License-Identifier: Apache-2.0
// The process's coordinator and transport, and the C interface through which Python makes them.
#ifndef SOK_OPS_TF_RANKS_EXCHANGE_SERVICE_H_
#define SOK_OPS_TF_RANKS_EXCHANGE_SERVICE_H_

#include <memory>
#include <string>

#include "ops/exchange/rendezvous/coordinator.h"
#include "ops/exchange/transport/all_to_all.h"
#include "ops/tf/base/border.h"

namespace sok {

/// The coordinator of this process; null where it trains alone.
std::shared_ptr<Coordinator> CurrentCoordinator();

/// What SokNextPart and SokTakePart drive; null: nothing.
std::shared_ptr<AllToAllTransport> CurrentAllToAll();

/// The step or function call that an op is part of; in eager code, none or one of its own.
StepId StepIdOf(tensorflow::OpKernelContext* ctx);

}  // namespace sok

#endif  // SOK_OPS_TF_RANKS_EXCHANGE_SERVICE_H_
