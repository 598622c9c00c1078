// SPDX-License-Identifier: Apache-2.0
// Keys in buckets, by which checkpoints of DeepRec are shared among parts of a table.
#ifndef SOK_OPS_TF_TABLES_KEY_BUCKETS_H_
#define SOK_OPS_TF_TABLES_KEY_BUCKETS_H_

#include <cstdint>

#include "ops/tf/tables/table_resource.h"

namespace sok {

/// floormod(key, num_buckets), also of keys below 0.
inline int64_t BucketOf(int64_t key, int64_t num_buckets) {
  const int64_t remainder = key % num_buckets;
  return remainder < 0 ? remainder + num_buckets : remainder;
}

/// What a table holds, bucket after bucket, with ascending keys in each; in memory of the call.
TableEntries InBuckets(OpCall& call, const TableEntries& held, int64_t num_buckets);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_KEY_BUCKETS_H_
