// SPDX-License-Identifier: Apache-2.0
// Backward: merges the gradients of bags into one gradient per distinct key. No table, no
// communication.
#pragma once

#include <cstdint>

#include "ops/base/threads/executor.h"
#include "ops/engine/bags.h"

namespace sok {

/// As Engine::MergeGradients. The order of additions is fixed: the same input gives the same bits
/// on any executor.
void MergeGradients(Executor& executor, const Bags& bags, int64_t dim,
                    const float* gradients,  // [num_bags, dim]
                    float* merged);          // [num_distinct, dim]

}  // namespace sok
