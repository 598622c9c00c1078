// SPDX-License-Identifier: Apache-2.0
// Checks of keys that are to be all that a table holds, before what it held is replaced.
#ifndef SOK_OPS_TF_RESTORED_KEYS_H_
#define SOK_OPS_TF_RESTORED_KEYS_H_

#include <cstdint>
#include <vector>

#include "ops/engine/table_options.h"

namespace sok {

/// Throws when `keys` cannot all be in the table: kInvalidArgument, naming the key, for one that is
/// there twice or out of range, or, where `has_narrow_keys`, no uint32, which the table's keys are;
/// kOutOfCapacity for too many.
void CheckKeysFit(const TableOptions& options, const std::vector<int64_t>& keys,
                  bool has_narrow_keys);

}  // namespace sok

#endif  // SOK_OPS_TF_RESTORED_KEYS_H_
