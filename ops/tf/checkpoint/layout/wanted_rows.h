// SPDX-License-Identifier: Apache-2.0
// Reads rows of a checkpoint for some of its keys into a table that is being filled.
#ifndef SOK_OPS_TF_CHECKPOINT_LAYOUT_WANTED_ROWS_H_
#define SOK_OPS_TF_CHECKPOINT_LAYOUT_WANTED_ROWS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/tf/checkpoint/bundle/saved_tensors.h"
#include "ops/tf/tables/table_contents.h"

namespace sok {

/// Takes keys and their rows, which it may overwrite.
using UseRows = std::function<void(int64_t count, const int64_t* keys, float* rows)>;

/// Calls use(count, keys, rows) for parts of `keys`; the i-th key has row places[i] of the tensor
/// [any, width]; places ascend.
void ForEachWanted(SavedTensors& saved, const std::string& name, int64_t width,
                   const std::vector<int64_t>& keys, const std::vector<int64_t>& places,
                   const UseRows& use);

/// Writes one plane's rows by key, skipping keys that the table does not hold.
class SlotFiller {
 public:
  SlotFiller(OpCall& call, const TableView& fresh, Plane& plane, int64_t most_keys);

  void Write(int64_t count, const int64_t* keys, float* values);

 private:
  OpCall& call_;
  const TableView& fresh_;
  const int64_t width_;
  RowMover mover_;
  int64_t* const keys_;
  int64_t* const row_ids_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_LAYOUT_WANTED_ROWS_H_
