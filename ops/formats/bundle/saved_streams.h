// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint with the same number of rows, read together and ahead of the consumer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/formats/bundle/bundle.h"

namespace sok {

/// Rows [first, first + count) of all tensors.
struct SavedBlock {
  int64_t first = 0, count = 0;
  std::vector<char*> data;          // by tensor, destination of the rows
  std::vector<std::string> buffer;  // memory for tensors without another destination
};

/// For tensors with the same number of rows. Verifies the checksums of everything it reads.
class SavedStreams {
 public:
  /// A block has at most `most_rows`. Throws the errors of Bundle.
  SavedStreams(Bundle& saved, const std::vector<std::string>& names, int64_t most_rows = INT64_MAX);

  /// Whether all tensors were saved in the same slices.
  bool AreSlicedAlike() const;

  /// Calls use(block) for all rows, ascending, while threads read the next ones. If tensors are
  /// sliced alike, skips slices without is_wanted(first row of the slice). If given, place(tensor,
  /// n) is the destination of the tensor's rows from the n-th wanted row on; nullptr: memory of the
  /// block, valid until `use` returns.
  using IsWanted = std::function<bool(int64_t first)>;
  using Use = std::function<void(const SavedBlock& block)>;
  using Place = std::function<char*(size_t tensor, int64_t n)>;
  void ForEachBlock(const IsWanted& is_wanted, const Use& use, const Place& place = nullptr);

 private:
  std::vector<SavedBlock> Blocks(const IsWanted& is_wanted) const;

  Bundle& saved_;
  const int64_t most_rows_;
  std::vector<std::vector<Bundle::Piece>> pieces_;  // by tensor
};

}  // namespace sok
