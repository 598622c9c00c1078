// SPDX-License-Identifier: Apache-2.0
// Buckets of keys, by which DeepRec's checkpoints are divided among the parts of a table.
#ifndef SOK_OPS_TF_TABLES_CONTENTS_KEY_BUCKETS_H_
#define SOK_OPS_TF_TABLES_CONTENTS_KEY_BUCKETS_H_

#include <cstdint>

#include "ops/tf/tables/resource/table_resource.h"

namespace sok {

/// floormod(key, num_buckets), also for negative keys.
inline int64_t BucketOf(int64_t key, int64_t num_buckets) {
  const int64_t remainder = key % num_buckets;
  return remainder < 0 ? remainder + num_buckets : remainder;
}

/// A table's entries by bucket, with ascending keys in each; in memory of the call.
TableEntries InBuckets(OpCall& call, const TableEntries& held, int64_t num_buckets);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_CONTENTS_KEY_BUCKETS_H_
