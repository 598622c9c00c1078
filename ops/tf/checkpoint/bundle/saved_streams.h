// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint that stand side by side, row by row, read together and ahead of who uses
// them.
#ifndef SOK_OPS_TF_CHECKPOINT_BUNDLE_SAVED_STREAMS_H_
#define SOK_OPS_TF_CHECKPOINT_BUNDLE_SAVED_STREAMS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/tf/checkpoint/bundle/saved_tensors.h"

namespace sok {

/// Some rows of all tensors: [first, first + count).
struct SavedBlock {
  int64_t first = 0, count = 0;
  std::vector<char*> data;        // of each tensor, where it is read to
  std::vector<std::string> room;  // for those that have no other place
};

/// Of tensors with as many rows each. Sums are checked of all that is read.
class SavedStreams {
 public:
  /// Throws as SavedTensors does.
  SavedStreams(SavedTensors& saved, const std::vector<std::string>& names);

  /// Whether all tensors were saved in the same slices.
  bool AreSlicedAlike() const;

  /// Calls use(block) for all rows, ascending, while threads read the next ones. Where tensors are
  /// sliced alike, only of those slices for which is_wanted(first row of the slice). Where given,
  /// place(tensor, n) says where its rows go from the n-th wanted one on, as many as are asked for
  /// at all; nullptr: to memory of the block's own, which lasts until `use` returns.
  using IsWanted = std::function<bool(int64_t first)>;
  using Use = std::function<void(const SavedBlock& block)>;
  using Place = std::function<char*(size_t tensor, int64_t n)>;
  void ForEachBlock(const IsWanted& is_wanted, const Use& use, const Place& place = nullptr);

 private:
  std::vector<SavedBlock> Blocks(const IsWanted& is_wanted) const;

  SavedTensors& saved_;
  std::vector<std::vector<SavedTensors::Piece>> pieces_;  // of each tensor
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_SAVED_STREAMS_H_
