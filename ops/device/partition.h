// SPDX-License-Identifier: Apache-2.0
// Sorts keys by the rank that owns them, for an exchange. No table.
#ifndef SOK_OPS_DEVICE_PARTITION_H_
#define SOK_OPS_DEVICE_PARTITION_H_

#include <cstdint>

#include "ops/device/count.h"
#include "ops/device/merging.h"
#include "ops/device/scratch.h"

namespace sok {

/// owners[i] = floormod(keys[i], world_size).
struct FindOwner {
  const int64_t* keys;
  int64_t world_size;
  uint32_t* owners;
  int32_t* positions;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t remainder = keys[i] % world_size;
    owners[i] = static_cast<uint32_t>(remainder < 0 ? remainder + world_size : remainder);
    positions[i] = static_cast<int32_t>(i);
  }
};

struct GatherKeys {
  const int64_t* keys;
  const int32_t* positions;
  int64_t* gathered;

  SOK_HOST_DEVICE void operator()(int64_t i) const { gathered[i] = keys[positions[i]]; }
};

/// begins[r] = how many keys belong to ranks below r, for r in [0, world_size], by search.
struct FindRankBegin {
  const uint32_t* owners;  // [num_keys], ascending
  int64_t num_keys;
  int64_t* begins;

  SOK_HOST_DEVICE void operator()(int64_t rank) const {
    int64_t low = 0;
    int64_t high = num_keys;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (static_cast<int64_t>(owners[middle]) < rank) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    begins[rank] = low;
  }
};

/// Groups `keys` by owner, in the order of the batch within each: keys_by_owner[i] ==
/// keys[positions[i]], and those of rank r stand in [begins[r], begins[r + 1]).
template <typename Queue>
void PartitionByOwner(Queue& queue, Scratch<Queue>& scratch, int64_t num_keys, int64_t world_size,
                      const int64_t* keys,     // [num_keys]
                      int64_t* keys_by_owner,  // [num_keys]
                      int32_t* positions,      // [num_keys]
                      int64_t* begins) {       // [world_size + 1]
  typename Scratch<Queue>::Frame frame(scratch);
  auto* owners = scratch.template Take<uint32_t>(num_keys);
  auto* sorted_owners = scratch.template Take<uint32_t>(num_keys);
  auto* numbers = scratch.template Take<int32_t>(num_keys);
  queue.ForEach(num_keys, FindOwner{keys, world_size, owners, numbers});
  queue.StableSort(num_keys, BitsFor(world_size), owners, numbers, sorted_owners, positions);
  queue.ForEach(num_keys, GatherKeys{keys, positions, keys_by_owner});
  queue.ForEach(world_size + 1, FindRankBegin{sorted_owners, num_keys, begins});
}

}  // namespace sok

#endif  // SOK_OPS_DEVICE_PARTITION_H_
