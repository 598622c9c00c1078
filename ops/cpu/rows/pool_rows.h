// SPDX-License-Identifier: Apache-2.0
// Forward: pools the rows of distinct keys into the output of each bag. No table, no communication.
#pragma once

#include "ops/base/threads/executor.h"
#include "ops/engine/engine.h"

namespace sok {

/// As Engine::PoolRows. The order of additions is fixed.
void PoolRows(Executor& executor, const Bags& bags, const RowSource& source,
              float* out);  // [num_bags, source.plane.width]

}  // namespace sok
