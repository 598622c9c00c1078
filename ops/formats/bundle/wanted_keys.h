// SPDX-License-Identifier: Apache-2.0
// Buckets of keys, by which DeepRec's checkpoints are divided among the parts of a table, and which
// keys of a checkpoint a table takes.
#pragma once

#include <cstdint>

#include "ops/base/placement.h"

namespace sok {

/// floormod(key, num_buckets), also for negative keys.
inline int64_t BucketOf(int64_t key, int64_t num_buckets) {
  const int64_t remainder = key % num_buckets;
  return remainder < 0 ? remainder + num_buckets : remainder;
}

/// The keys that this rank owns and, of a table in parts, whose bucket is `part` modulo num_parts.
struct WantedKeys {
  bool are_all() const { return num_parts == 1 && placement.num_ranks == 1; }
  bool Has(int64_t key) const {
    const bool is_of_part = num_parts == 1 || BucketOf(key, num_buckets) % num_parts == part;
    return is_of_part && placement.IsOwned(key);
  }

  Placement placement;
  int64_t num_buckets = 1, num_parts = 1, part = 0;
};

}  // namespace sok
