// SPDX-License-Identifier: Apache-2.0
// The coordinator and transport of the process, and the C interface by which Python creates them.
#pragma once

#include <memory>

#include "ops/exchange/rendezvous/coordinator.h"
#include "ops/exchange/transport/all_to_all.h"
#include "ops/tf/base/border.h"

namespace sok {

/// The coordinator of this process; null if it trains alone.
std::shared_ptr<Coordinator> CurrentCoordinator();

/// The transport that SokNextPart and SokTakePart drive; null if there is none.
std::shared_ptr<AllToAllTransport> CurrentAllToAll();

/// The step or function call of an op; in eager code, none or one of its own.
StepId StepIdOf(tf::OpKernelContext* ctx);

}  // namespace sok
