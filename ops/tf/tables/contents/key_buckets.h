// SPDX-License-Identifier: Apache-2.0
// A table's entries in the order of DeepRec's checkpoints.
#pragma once

#include <cstdint>

#include "ops/formats/bundle/wanted_keys.h"
#include "ops/tf/tables/contents/rows_to_sink.h"

namespace sok {

/// Keys by bucket, ascending in each, with their row ids; in memory of the call.
TableEntries InBuckets(OpCall& call, KeysInOrder& live, int64_t num_buckets);

}  // namespace sok
