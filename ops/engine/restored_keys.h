// SPDX-License-Identifier: Apache-2.0
// Checks keys that are to become a table's contents, before the old contents are replaced.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/engine/table_options.h"

namespace sok {

/// The dtype of a table's keys, or of the ids that it is given.
enum class KeysOf { kInt64, kInt32, kUint32 };

/// Throws if the table cannot hold exactly `keys`: kInvalidArgument, naming the key, for one that
/// is repeated, does not fit the dtype or has no row in a table without a hash index;
/// kOutOfCapacity for too many.
void CheckKeysFit(const TableOptions& options, std::vector<int64_t> keys, KeysOf are);

/// As CheckKeysFit; sorts the keys.
void SortKeysThatFit(const TableOptions& options, std::vector<int64_t>* keys, KeysOf are);

/// The parts of the check, for callers that do not have all keys at once: the dtype; that and the
/// rows of a table without a hash index; and the number.
void CheckKeysAre(const TableOptions& options, int64_t count, const int64_t* keys, KeysOf are);
void CheckKeysFitOneByOne(const TableOptions& options, int64_t count, const int64_t* keys,
                          KeysOf are);
void CheckNumKeysFits(const TableOptions& options, int64_t num_keys);

}  // namespace sok
