// SPDX-License-Identifier: Apache-2.0
// Checks of keys that are to be all that a table holds, before what it held is replaced.
#ifndef SOK_OPS_TF_TABLES_RESTORED_KEYS_H_
#define SOK_OPS_TF_TABLES_RESTORED_KEYS_H_

#include <cstdint>
#include <vector>

#include "ops/engine/table_options.h"

namespace sok {

/// What the keys of a table are, or the ids that it is asked for.
enum class KeysOf { kInt64, kInt32, kUint32 };

/// Throws when `keys` cannot all be in the table: kInvalidArgument, naming the key, for one that is
/// there twice, is not what they are or has no row in a table without a hash index; kOutOfCapacity
/// for too many.
void CheckKeysFit(const TableOptions& options, std::vector<int64_t> keys, KeysOf are);

/// As CheckKeysFit; the keys ascend then.
void SortKeysThatFit(const TableOptions& options, std::vector<int64_t>* keys, KeysOf are);

/// The parts of it, for who has not all keys at once.
void CheckNumKeysFits(const TableOptions& options, int64_t num_keys);
void CheckKeysAre(const TableOptions& options, const std::vector<int64_t>& keys, KeysOf are);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_RESTORED_KEYS_H_
