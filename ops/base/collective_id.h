// SPDX-License-Identifier: Apache-2.0
// The name of something that all ranks take part in.
#pragma once

#include <cstdint>
#include <tuple>

namespace sok {

/// A lookup of all ranks, once.
struct CollectiveId {
  uint64_t lookup_hash = 0;
  int64_t number = 0;       // of times before this one or, in ordered code, of the call
  int64_t repeat = 0;       // in ordered code: lookups of this name that the call has made before
  bool is_ordered = false;  // ranks match by the order of calls, not by the count of the lookup

  bool operator<(const CollectiveId& other) const {
    return std::tie(number, lookup_hash, repeat, is_ordered) <
           std::tie(other.number, other.lookup_hash, other.repeat, other.is_ordered);
  }
  bool operator==(const CollectiveId& other) const {
    return std::tie(number, lookup_hash, repeat, is_ordered) ==
           std::tie(other.number, other.lookup_hash, other.repeat, other.is_ordered);
  }
};

}  // namespace sok
