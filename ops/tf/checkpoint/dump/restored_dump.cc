// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/dump/restored_dump.h"

#include <numeric>
#include <utility>

namespace sok {

RowsOfRank0::RowsOfRank0(RankCommunicator& communicator, const Placement& placement,
                         RowsSource* source, std::vector<int64_t> row_bytes)
    : communicator_(communicator),
      placement_(placement),
      source_(source),
      row_bytes_(std::move(row_bytes)) {
  const bool are_shared =
      placement.kind == Placement::Kind::kModulo || placement.kind == Placement::Kind::kRange;
  const int64_t num_ranks = are_shared ? placement.num_ranks : 1;
  const int64_t total = communicator.ShareNumber(source ? source->num_keys() : 0)[0];
  num_keys_ = (total + num_ranks - 1) / num_ranks;
}

void RowsOfRank0::ForEachBlock(const Use& use, const Place& place) {
  if (placement_.num_ranks == 1) return source_->ForEachBlock(use, place);
  const auto num_ranks = static_cast<size_t>(placement_.num_ranks);
  if (source_ != nullptr) {
    source_->ForEachBlock([&](const RowsBlock& block) { Scatter(block, use); });
    if (communicator_.is_connected()) communicator_.Exchange(std::vector<std::string>(num_ranks));
    return;
  }
  for (;;) {  // until rank 0 sends nothing
    const std::string bytes = communicator_.Exchange(std::vector<std::string>(num_ranks))[0];
    if (bytes.empty()) return;
    use(BlockIn(bytes));
  }
}

/// A block as bytes: all of each column, and one byte more.
RowsBlock RowsOfRank0::BlockIn(const std::string& bytes) const {
  const int64_t per_row = std::accumulate(row_bytes_.begin(), row_bytes_.end(), int64_t{0});
  RowsBlock block;
  block.count = static_cast<int64_t>(bytes.size()) / per_row;
  block.row_bytes = row_bytes_;
  const char* next = bytes.data();
  for (const int64_t of_row : row_bytes_) {
    block.data.push_back(next);
    next += block.count * of_row;
  }
  return block;
}

std::string RowsOfRank0::Chosen(const RowsBlock& block, const std::vector<int64_t>& places) const {
  std::string bytes;
  for (size_t column = 0; column < row_bytes_.size(); ++column) {
    const auto* rows = static_cast<const char*>(block.data[column]);
    for (const int64_t place : places)
      bytes.append(rows + place * row_bytes_[column], static_cast<size_t>(row_bytes_[column]));
  }
  return bytes + '.';
}

/// Sends each rank the rows that it owns, if this process is connected to others, and uses its own.
void RowsOfRank0::Scatter(const RowsBlock& block, const Use& use) {
  std::vector<std::vector<int64_t>> places(static_cast<size_t>(placement_.num_ranks));
  for (int64_t i = 0; i < block.count; ++i) {
    if (placement_.kind == Placement::Kind::kReplicated) {
      for (std::vector<int64_t>& of_rank : places) of_rank.push_back(i);
    } else {
      places[static_cast<size_t>(placement_.Owner(block.keys()[i]))].push_back(i);
    }
  }
  const auto own = static_cast<size_t>(placement_.rank);
  const std::string kept = Chosen(block, places[own]);
  if (communicator_.is_connected()) {
    std::vector<std::string> texts(places.size());
    for (size_t rank = 0; rank < places.size(); ++rank) {
      if (rank != own) texts[rank] = Chosen(block, places[rank]);
    }
    communicator_.Exchange(std::move(texts));
  }
  use(BlockIn(kept));
}

}  // namespace sok
