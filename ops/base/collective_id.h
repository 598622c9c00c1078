// SPDX-License-Identifier: Apache-2.0
// The name of something that all ranks take part in.
#ifndef SOK_OPS_BASE_COLLECTIVE_ID_H_
#define SOK_OPS_BASE_COLLECTIVE_ID_H_

#include <cstdint>
#include <tuple>

namespace sok {

/// A lookup of all ranks: its `number`-th time or, in ordered code, the number of the call and how
/// many lookups of this name the call has made before.
struct CollectiveId {
  uint64_t lookup_hash = 0;
  int64_t number = 0;
  int64_t repeat = 0;

  bool operator<(const CollectiveId& other) const {
    return std::tie(number, lookup_hash, repeat) <
           std::tie(other.number, other.lookup_hash, other.repeat);
  }
  bool operator==(const CollectiveId& other) const {
    return std::tie(number, lookup_hash, repeat) ==
           std::tie(other.number, other.lookup_hash, other.repeat);
  }
};

}  // namespace sok

#endif  // SOK_OPS_BASE_COLLECTIVE_ID_H_
