// SPDX-License-Identifier: Apache-2.0
// Sums over ranks of numbers that all of them have.
#ifndef SOK_OPS_EXCHANGE_ALL_REDUCE_H_
#define SOK_OPS_EXCHANGE_ALL_REDUCE_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace sok {

/// What multiplies each rank's values before they are added, and the sum.
struct SumFactors {
  float of_values = 1.0F;
  float of_sum = 1.0F;
};

struct FloatRange {
  size_t begin = 0;
  size_t size = 0;
};

/// The part of `size` floats that a rank adds up for all of them.
FloatRange ShareOf(size_t rank, size_t num_ranks, size_t size);

/// values: this rank's, which become the sums; parts: those of all ranks, as bytes of the same
/// number of floats, whose own one is not read. Adds in the order of ranks: all get the same.
void SumOverRanks(const std::vector<std::string_view>& parts, size_t own_rank,
                  const SumFactors& factors, float* values, size_t size);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_ALL_REDUCE_H_
