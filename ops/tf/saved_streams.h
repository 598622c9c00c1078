// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint that stand side by side, row by row, read together and ahead of who uses
// them.
#ifndef SOK_OPS_TF_SAVED_STREAMS_H_
#define SOK_OPS_TF_SAVED_STREAMS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/tf/saved_tensors.h"

namespace sok {

/// Some rows of all tensors: [first, first + count).
struct SavedBlock {
  int64_t first = 0, count = 0;
  std::vector<std::string> data;  // of each tensor
};

/// Of tensors with as many rows each. Sums are checked of all that is read.
class SavedStreams {
 public:
  /// Throws as SavedTensors does.
  SavedStreams(SavedTensors& saved, const std::vector<std::string>& names);

  /// Calls use(block) for all rows, ascending, while a thread reads the next ones. Where all
  /// tensors were saved in the same slices, only of those for which is_wanted(first row of the
  /// slice).
  using IsWanted = std::function<bool(int64_t first)>;
  using Use = std::function<void(const SavedBlock& block)>;
  void ForEachBlock(const IsWanted& is_wanted, const Use& use);

 private:
  bool AreSlicedAlike() const;
  std::vector<SavedBlock> Blocks(const IsWanted& is_wanted) const;

  SavedTensors& saved_;
  std::vector<std::vector<SavedTensors::Piece>> pieces_;  // of each tensor
};

}  // namespace sok

#endif  // SOK_OPS_TF_SAVED_STREAMS_H_
