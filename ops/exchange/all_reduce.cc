// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sok {
namespace {

constexpr size_t kBlock = 1024;  // floats that stay in the nearest cache while ranks are added

using Block = std::array<float, kBlock>;

}  // namespace

FloatRange ShareOf(size_t rank, size_t num_ranks, size_t size) {
  const size_t least = size / num_ranks;
  const size_t num_longer = size % num_ranks;
  return {rank * least + std::min(rank, num_longer), least + (rank < num_longer ? 1 : 0)};
}

void SumOverRanks(const std::vector<std::string_view>& parts, size_t own_rank,
                  const SumFactors& factors, float* values, size_t size) {
  Block sums;
  Block of_rank;
  for (size_t begin = 0; begin < size; begin += kBlock) {
    const size_t count = std::min(kBlock, size - begin);
    sums.fill(0.0F);
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      const void* const from =
          rank == own_rank ? static_cast<const void*>(values + begin)
                           : static_cast<const void*>(parts[rank].data() + begin * sizeof(float));
      std::memcpy(of_rank.data(), from, count * sizeof(float));  // which stand anywhere
      for (size_t i = 0; i < count; ++i) sums[i] += of_rank[i] * factors.of_values;
    }
    for (size_t i = 0; i < count; ++i) values[begin + i] = sums[i] * factors.of_sum;
  }
}

}  // namespace sok
