// SPDX-License-Identifier: Apache-2.0
// Finds the distinct keys of a batch by hashing. No table, no rows.
#ifndef SOK_OPS_LOOKUP_DISTINCT_H_
#define SOK_OPS_LOOKUP_DISTINCT_H_

#include <cstdint>

#include "ops/base/executor.h"

namespace sok {

/// Largest batch that Distinct takes: positions are int32.
constexpr int64_t kMaxBatchKeys = INT32_MAX;

/// Writes the distinct values of `keys` in the order of their first appearance and returns how many
/// there are. keys[i] == distinct_keys[inverse[i]] for all i. The result does not depend on the
/// executor.
template <typename Key>  // int64_t or uint32_t
int64_t Distinct(Executor& executor, int64_t num_keys,
                 const Key* keys,         // [num_keys], at most kMaxBatchKeys
                 int64_t* distinct_keys,  // [num_keys] of room; the first `returned` are written
                 int32_t* inverse);       // [num_keys]

}  // namespace sok

#endif  // SOK_OPS_LOOKUP_DISTINCT_H_
