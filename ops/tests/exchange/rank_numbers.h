// SPDX-License-Identifier: Apache-2.0
// The ranks of a job whose ranks are all on one host.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace sok::testing {

/// 0, 1, ..., num_ranks - 1.
inline std::vector<int> RankNumbers(int num_ranks) {
  std::vector<int> numbers(static_cast<size_t>(num_ranks));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace sok::testing
