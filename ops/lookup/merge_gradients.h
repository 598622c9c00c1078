// SPDX-License-Identifier: Apache-2.0
// Backward: the gradients of bags to one gradient for each distinct key. No table, no
// communication.
#ifndef SOK_OPS_LOOKUP_MERGE_GRADIENTS_H_
#define SOK_OPS_LOOKUP_MERGE_GRADIENTS_H_

#include <cstdint>

#include "ops/base/executor.h"
#include "ops/lookup/bags.h"

namespace sok {

/// merged[d] = sum over the occurrences of distinct key d of Scale * gradients[bag of the
/// occurrence]; a distinct key without occurrences gets zeros. The order of additions is fixed: the
/// same input gives the same bits on any executor.
void MergeGradients(Executor& executor, const Bags& bags, int64_t dim,
                    const float* gradients,  // [num_bags, dim]
                    float* merged);          // [num_distinct, dim]

}  // namespace sok

#endif  // SOK_OPS_LOOKUP_MERGE_GRADIENTS_H_
