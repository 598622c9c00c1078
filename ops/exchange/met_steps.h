// SPDX-License-Identifier: Apache-2.0
// Which steps of the ranks belong together.
#ifndef SOK_OPS_EXCHANGE_MET_STEPS_H_
#define SOK_OPS_EXCHANGE_MET_STEPS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace sok {

class MetSteps {
 public:
  /// Whether the steps of all ranks, [num_ranks], may meet: none of them has met others.
  bool Match(const std::vector<int64_t>& steps);

 private:
  // (step, rank) -> the steps of all ranks that it has met; of late.
  std::map<std::pair<int64_t, int>, std::vector<int64_t>> met_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_MET_STEPS_H_
