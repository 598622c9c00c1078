// SPDX-License-Identifier: Apache-2.0
// Philox for several counters at once: the same words, faster with AVX2.
#pragma once

#include <cstdint>

namespace sok {

constexpr int kPhiloxLanes = 16;

/// Counters (word0, word1, word2, 0), one per lane.
struct CounterLanes {
  uint32_t word0[kPhiloxLanes] = {};
  uint32_t word1[kPhiloxLanes] = {};
  uint32_t word2[kPhiloxLanes] = {};
};

/// words[i] = the four words of Philox for the counter in lane i.
void PhiloxLanes(const CounterLanes& counters, uint64_t stream,
                 uint32_t* words);  // [kPhiloxLanes, 4]

/// As above, one lane after the other, on any processor.
void PhiloxLanesPlain(const CounterLanes& counters, uint64_t stream, uint32_t* words);

}  // namespace sok
