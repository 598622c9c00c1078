// SPDX-License-Identifier: Apache-2.0
// The secret of this process that hash tables in memory mix into the hashes of keys.
#pragma once

#include <cstdint>

namespace sok {

/// Differs by process, so that nobody can choose keys that share a bucket. Nothing that leaves a
/// hash table may depend on it: no row id, order, file or message to another rank.
uint64_t HashSecret();

}  // namespace sok
