// SPDX-License-Identifier: Apache-2.0
// The memory traffic of each operation at places known beforehand: what no hash table can beat.
#ifndef SOK_BENCHMARKS_GPU_CEILINGS_CUH_
#define SOK_BENCHMARKS_GPU_CEILINGS_CUH_

#include <cstdint>

#include "ops/device/kernels/bucket_index.h"
#include "ops/device/memory/float_pack.h"

namespace sok::benchmark {

/// Reads 8 bytes of a list, one bucket at random, and writes a row id.
struct ReadBuckets {
  const DeviceBucket* buckets;
  const int64_t* places;
  int64_t* row_ids;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const DeviceBucket bucket = LoadBucket(buckets + places[i]);
    uint64_t sum = bucket.num_passed;  // all 64 bytes are used, or the compiler reads fewer
    SOK_UNROLL
    for (int slot = 0; slot < DeviceBucket::kSlots; ++slot) {
      sum ^= static_cast<uint64_t>(bucket.keys[slot]) ^ bucket.row_ids[slot];
    }
    row_ids[i] = static_cast<int64_t>(sum);
  }
};

/// As ReadBuckets, and then copies a row at random whose number waits for the bucket.
template <typename Pack>
struct ReadBucketsAndRows {
  const DeviceBucket* buckets;
  const int64_t* places;
  const uint32_t* rows;
  int64_t dim;
  const float* plane;
  int64_t* row_ids;
  float* out;

  SOK_HOST_DEVICE uint32_t Look(int64_t i) const {
    const DeviceBucket bucket = LoadBucket(buckets + places[i]);
    uint64_t sum = bucket.num_passed;
    SOK_UNROLL
    for (int slot = 0; slot < DeviceBucket::kSlots; ++slot) {
      sum ^= static_cast<uint64_t>(bucket.keys[slot]) ^ bucket.row_ids[slot];
    }
    row_ids[i] = rows[i];
    return rows[i] + (sum == 0x123456789abcdef0u ? 1u : 0u);  // never, but who knows before
  }
  SOK_HOST_DEVICE void Move(int64_t i, int64_t part, uint32_t row) const {
    const int64_t column = part * Pack::width;
    StreamPack(out + i * dim + column, LoadPack<Pack>(plane + row * dim + column));
  }
};

/// Reads and writes one bucket at random.
struct WriteBuckets {
  DeviceBucket* buckets;
  const int64_t* places;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    DeviceBucket bucket = LoadBucket(buckets + places[i]);
    SOK_UNROLL
    for (int slot = 0; slot < DeviceBucket::kSlots; ++slot) bucket.keys[slot] ^= 1;
    buckets[places[i]] = bucket;
  }
};

/// An optimizer of two states without arithmetic worth mentioning.
struct TouchRule {
  static constexpr int kStates = 2;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* state) const {
    state[0] += g;
    state[1] += g;
    value += g;
  }
};

}  // namespace sok::benchmark

#endif  // SOK_BENCHMARKS_GPU_CEILINGS_CUH_
