// SPDX-License-Identifier: Apache-2.0
// Checks of keys that are to be all that a table holds, before what it held is forgotten.
#ifndef SOK_OPS_TF_RESTORED_KEYS_H_
#define SOK_OPS_TF_RESTORED_KEYS_H_

#include <cstdint>
#include <vector>

#include "ops/table/table.h"

namespace sok {

/// Whether `key` belongs to the table's rank.
bool IsOwned(const TableOptions& options, int64_t key);

/// Throws when `keys` cannot all be in the table: kInvalidArgument, naming the key, for one that is
/// there twice or out of range, kOutOfCapacity for too many.
void CheckKeysFit(const TableOptions& options, const std::vector<int64_t>& keys);

/// Throws kInvalidArgument when `keys` cannot be looked up in a table whose keys are uint32.
void CheckKeysAreNarrow(const TableOptions& options, const std::vector<int64_t>& keys);

}  // namespace sok

#endif  // SOK_OPS_TF_RESTORED_KEYS_H_
