// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/bundle/saved_streams.h"

#include <algorithm>
#include <deque>
#include <future>
#include <memory>
#include <set>
#include <utility>

namespace sok {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;
// Blocks in memory: the consumer's, and two being read, as with one it would wait for the disk.
constexpr size_t kBlocks = 3;

/// A tensor of which one piece at a time is open: for reading, or for summing.
template <typename Opened>
class TensorPieces {
 public:
  TensorPieces(Bundle& saved, const std::vector<Bundle::Piece>& pieces)
      : saved_(&saved), pieces_(&pieces) {}

  /// {the opened piece that has the row `first`, the row's number in it}. Rows must ascend.
  std::pair<std::shared_ptr<Opened>, int64_t> At(int64_t first) {
    for (; first >= piece().first + piece().count; ++number_) opened_ = nullptr;
    if (!opened_) opened_ = std::make_shared<Opened>(*saved_, piece());
    return {opened_, first - piece().first};
  }

 private:
  const Bundle::Piece& piece() const { return (*pieces_)[number_]; }

  Bundle* saved_;
  const std::vector<Bundle::Piece>* pieces_;
  size_t number_ = 0;               // number of the piece
  std::shared_ptr<Opened> opened_;  // the piece, once it was used
};

/// Reads a block on a thread of its own.
std::future<void> BeginRead(std::vector<TensorPieces<PieceReader>>* tensors, SavedBlock* block) {
  std::vector<std::pair<std::shared_ptr<PieceReader>, int64_t>> pieces;
  for (auto& tensor : *tensors) pieces.push_back(tensor.At(block->first));
  return std::async(std::launch::async, [pieces = std::move(pieces), block] {
    block->buffer.resize(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto& [reader, first] = pieces[i];
      if (block->data[i] == nullptr) {
        block->buffer[i].resize(static_cast<size_t>(block->count * reader->row_bytes()));
        block->data[i] = block->buffer[i].data();
      }
      reader->Read(first, block->count, block->data[i]);
    }
  });
}

}  // namespace

SavedStreams::SavedStreams(Bundle& saved, const std::vector<std::string>& names, int64_t most_rows)
    : saved_(saved), most_rows_(most_rows) {
  for (const std::string& name : names) pieces_.push_back(saved.PiecesOf(name));
}

bool SavedStreams::AreSlicedAlike() const {
  return std::all_of(pieces_.begin(), pieces_.end(), [&](const auto& pieces) {
    return std::equal(pieces.begin(), pieces.end(), pieces_[0].begin(), pieces_[0].end(),
                      [](const Bundle::Piece& a, const Bundle::Piece& b) {
                        return a.first == b.first && a.count == b.count;
                      });
  });
}

/// Blocks without data. Each lies within one piece of every tensor.
std::vector<SavedBlock> SavedStreams::Blocks(const IsWanted& is_wanted) const {
  std::set<int64_t> starts;
  int64_t num_rows = 0, row_bytes = 0;
  for (const auto& pieces : pieces_) {
    int64_t of_tensor = 0;
    for (const Bundle::Piece& piece : pieces) {
      if (piece.count == 0) continue;
      starts.insert(piece.first);
      num_rows = std::max(num_rows, piece.first + piece.count);
      of_tensor = piece.row_bytes();
    }
    row_bytes += of_tensor;
  }
  const bool may_pass_over = AreSlicedAlike();
  const int64_t most =
      std::max<int64_t>(1, std::min(most_rows_, kBlockBytes / std::max<int64_t>(1, row_bytes)));
  std::vector<SavedBlock> blocks;
  for (auto start = starts.begin(); start != starts.end(); ++start) {
    if (may_pass_over && !is_wanted(*start)) continue;
    const auto next = std::next(start);
    const int64_t end = next == starts.end() ? num_rows : *next;
    for (int64_t first = *start; first < end; first += most) {
      blocks.emplace_back();
      blocks.back().first = first;
      blocks.back().count = std::min(most, end - first);
    }
  }
  return blocks;
}

void SavedStreams::ForEachBlock(const IsWanted& is_wanted, const Use& use, const Place& place) {
  std::vector<SavedBlock> blocks = Blocks(is_wanted);
  int64_t num_before = 0;
  for (SavedBlock& block : blocks) {
    for (size_t i = 0; i < pieces_.size(); ++i)
      block.data.push_back(place ? place(i, num_before) : nullptr);
    num_before += block.count;
  }
  std::vector<TensorPieces<PieceReader>> readers;
  std::vector<TensorPieces<PieceSum>> sums;
  for (const auto& pieces : pieces_) {
    readers.emplace_back(saved_, pieces);
    sums.emplace_back(saved_, pieces);
  }
  std::deque<std::future<void>> reads;  // of the blocks from `next` on
  for (size_t next = 0; next < blocks.size(); ++next) {
    while (reads.size() < std::min(kBlocks, blocks.size() - next))
      reads.push_back(BeginRead(&readers, &blocks[next + reads.size()]));
    reads.front().get();
    reads.pop_front();
    SavedBlock& block = blocks[next];
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto [sum, first] = sums[i].At(block.first);
      sum->Add(first, block.count, block.data[i]);
    }
    use(block);
    std::vector<std::string> buffer = std::move(block.buffer);  // its memory is free now
    if (next + kBlocks < blocks.size()) blocks[next + kBlocks].buffer = std::move(buffer);
  }
}

}  // namespace sok
