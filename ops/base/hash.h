// SPDX-License-Identifier: Apache-2.0
// Spreads 64-bit values evenly over all 64 bits. No state.
#pragma once

#include <cstdint>

#include "ops/base/host_device.h"

namespace sok {

/// A bijection in which every input bit flips every output bit about half of the time: the
/// finalizer of SplitMix64 (David Stafford's "Mix13"). Different values have different hashes.
SOK_HOST_DEVICE inline uint64_t MixBits(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// `secret`: HashSecret() for the place of a key in memory; none where results depend on the hash.
SOK_HOST_DEVICE inline uint64_t HashKey(int64_t key, uint64_t secret = 0) {
  // The offset keeps 0 from being its own hash.
  return MixBits((static_cast<uint64_t>(key) ^ secret) + 0x9e3779b97f4a7c15u);
}

/// The upper 64 bits of a product.
SOK_HOST_DEVICE inline uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{a} * b >> 64);
#endif
}

/// A bucket in [0, num_buckets): evenly spread for any number of buckets, and ascending with the
/// hash.
SOK_HOST_DEVICE inline int64_t ScaleHash(uint64_t hash, int64_t num_buckets) {
  return static_cast<int64_t>(MultiplyHigh(hash, static_cast<uint64_t>(num_buckets)));
}

}  // namespace sok
