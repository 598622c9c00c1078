// SPDX-License-Identifier: Apache-2.0
// Sums over ranks against sums in the order of ranks, one number at a time.
#include "ops/exchange/all_reduce.h"

#include <random>
#include <string>
#include <vector>

#include "ops/tests/check.h"

namespace sok {
namespace {

void SharesAreAllInOrder(size_t num_ranks, size_t size) {
  size_t end = 0;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const FloatRange share = ShareOf(rank, num_ranks, size);
    CHECK_EQ(share.begin, end);
    CHECK_TRUE(share.size - size / num_ranks <= 1);
    end += share.size;
  }
  CHECK_EQ(end, size);
}

void SumsAreInTheOrderOfRanks(size_t num_ranks, size_t size, const SumFactors& factors) {
  std::mt19937 random(static_cast<unsigned>(num_ranks * 10007 + size));
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> values(num_ranks, std::vector<float>(size));
  for (std::vector<float>& of_rank : values) {
    for (float& value : of_rank) value = normal(random);
  }
  std::vector<float> expected(size, 0.0F);
  for (size_t i = 0; i < size; ++i) {
    for (const std::vector<float>& of_rank : values) expected[i] += of_rank[i] * factors.of_values;
    expected[i] *= factors.of_sum;
  }
  std::vector<std::string> bytes;  // at places of no alignment
  for (const std::vector<float>& of_rank : values)
    bytes.push_back(" " + std::string(reinterpret_cast<const char*>(of_rank.data()), size * 4));
  for (size_t own = 0; own < num_ranks; ++own) {
    std::vector<std::string_view> parts;
    for (size_t rank = 0; rank < num_ranks; ++rank)
      parts.push_back(rank == own ? std::string_view() : std::string_view(bytes[rank]).substr(1));
    std::vector<float> sums = values[own];
    SumOverRanks(parts, own, factors, sums.data(), size);
    CHECK_TRUE(sums == expected);
  }
}

SOK_TEST(OfAnyNumberOfRanks) {
  for (const size_t num_ranks : {size_t{1}, size_t{2}, size_t{3}, size_t{8}}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{1024}, size_t{2500}}) {
      SharesAreAllInOrder(num_ranks, size);
      SumsAreInTheOrderOfRanks(num_ranks, size, {});
      SumsAreInTheOrderOfRanks(num_ranks, size, {0.5F, 0.25F});
      SumsAreInTheOrderOfRanks(num_ranks, size, {1.0F, 1.0F / 3.0F});
    }
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
