// SPDX-License-Identifier: Apache-2.0
// A source of rows that only rank 0 has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/base/placement.h"
#include "ops/formats/rows.h"
#include "ops/tf/ranks/rank_communicator.h"

namespace sok {

/// Rank 0 sends each rank the rows that it owns, block by block. All ranks call the same methods.
class RowsOfRank0 : public RowsSource {
 public:
  /// `source` is rank 0's, or that of a process without a connection to others, else nullptr.
  /// `row_bytes`: by column. The placement is the same on all ranks but for the rank.
  RowsOfRank0(RankCommunicator& communicator, const Placement& placement, RowsSource* source,
              std::vector<int64_t> row_bytes);

  int64_t num_keys() const override { return num_keys_; }
  void ForEachBlock(const Use& use, const Place& place = nullptr) override;

 private:
  RowsBlock BlockIn(const std::string& bytes) const;
  std::string Chosen(const RowsBlock& block, const std::vector<int64_t>& places) const;
  void Scatter(const RowsBlock& block, const Use& use);

  RankCommunicator& communicator_;
  const Placement placement_;
  RowsSource* const source_;
  const std::vector<int64_t> row_bytes_;
  int64_t num_keys_ = 0;
};

}  // namespace sok
