// SPDX-License-Identifier: Apache-2.0
// Reads a dump on rank 0, and gives each rank its rows, block by block.
#ifndef SOK_OPS_TF_CHECKPOINT_DUMP_RESTORED_DUMP_H_
#define SOK_OPS_TF_CHECKPOINT_DUMP_RESTORED_DUMP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/base/placement.h"
#include "ops/formats/dumps/rows.h"
#include "ops/tf/ranks/rank_communicator.h"

namespace sok {

/// Rows with their keys, on the host.
struct RowsBlock {
  int64_t count = 0;
  const int64_t* keys = nullptr;
  std::vector<const float*> planes;  // rows, slots: [count, width]
};

/// Calls use(block) for the rows that this rank owns. All ranks call it with the same placement but
/// for the rank; `source` is rank 0's, on ranks connected to it nullptr. `widths`: of the planes.
using UseBlock = std::function<void(const RowsBlock& block)>;
void ForEachOwnedBlock(RankCommunicator& communicator, const Placement& placement,
                       const std::vector<int64_t>& widths, RowsSource* source, const UseBlock& use);

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_DUMP_RESTORED_DUMP_H_
