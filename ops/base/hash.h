// SPDX-License-Identifier: Apache-2.0
// Spreads 64-bit values evenly over all 64 bits. No state.
#ifndef SOK_OPS_BASE_HASH_H_
#define SOK_OPS_BASE_HASH_H_

#include <cstdint>

namespace sok {

/// A bijection in which every input bit flips every output bit about half of the time: the
/// finalizer of SplitMix64 (David Stafford's "Mix13"). Different keys never share all 64 bits.
inline uint64_t MixBits(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

inline uint64_t HashKey(int64_t key) {
  // The offset keeps 0 from being its own hash.
  return MixBits(static_cast<uint64_t>(key) + 0x9e3779b97f4a7c15u);
}

}  // namespace sok

#endif  // SOK_OPS_BASE_HASH_H_
