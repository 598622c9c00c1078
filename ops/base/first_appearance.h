// SPDX-License-Identifier: Apache-2.0
// Numbers the distinct keys of a batch in the order in which they first appear. One thread.
#pragma once

#include <cstdint>

namespace sok {

/// Writes the distinct values of `keys` in the order of their first appearance and returns their
/// number; keys[i] == distinct_keys[inverse[i]] for all i. `distinct_keys` may be `keys` itself.
template <typename Key>                                  // int64_t, uint32_t or int32_t
int64_t NumberByFirstAppearance(int64_t num_keys,        // at most INT32_MAX
                                const Key* keys,         // [num_keys]
                                int64_t* distinct_keys,  // capacity [num_keys]
                                int32_t* inverse);       // [num_keys]

}  // namespace sok
