// SPDX-License-Identifier: Apache-2.0
// Runs of bags of one key each, as features of one value make them: no bag is looked at alone.
#ifndef SOK_OPS_CPU_ONE_KEY_BAGS_H_
#define SOK_OPS_CPU_ONE_KEY_BAGS_H_

#include <cstdint>

#include "ops/base/wide_vectors.h"

namespace sok {

constexpr int64_t kRun = 16;  // bags that are looked at together

/// Whether each of the next kRun bags has one key; without a branch for each.
SOK_INLINE bool HaveOneKeyEach(const int64_t* row_splits) {  // [kRun + 1]
  if (row_splits[kRun] - row_splits[0] != kRun) return false;
  int64_t difference = 0;
  for (int64_t i = 0; i < kRun; ++i) difference |= (row_splits[i + 1] - row_splits[i]) ^ 1;
  return difference == 0;
}

}  // namespace sok

#endif  // SOK_OPS_CPU_ONE_KEY_BAGS_H_
