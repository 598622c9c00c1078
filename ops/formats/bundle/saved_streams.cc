// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/bundle/saved_streams.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace sok {
namespace {

constexpr int64_t kBlockBytes = 16 << 20;
constexpr size_t kReaders = 2;      // with one, the consumer would wait for the disk
constexpr size_t kBlocksAhead = 4;  // being read, or read and not consumed yet

/// A tensor of which one piece at a time is open: for reading in a thread, or for summing.
template <typename Opened>
class TensorPieces {
 public:
  TensorPieces(Bundle& saved, const std::vector<Bundle::Piece>& pieces)
      : saved_(&saved), pieces_(&pieces) {}

  /// Calls use(the opened piece that has the row `first`, the row's number in it). Rows must
  /// ascend.
  template <typename Use>
  void At(int64_t first, const Use& use) {
    for (; first >= piece().first + piece().count; ++number_) opened_ = nullptr;
    if (!opened_) opened_ = std::make_unique<Opened>(*saved_, piece());
    use(*opened_, first - piece().first);
  }

 private:
  const Bundle::Piece& piece() const { return (*pieces_)[number_]; }

  Bundle* saved_;
  const std::vector<Bundle::Piece>* pieces_;
  size_t number_ = 0;               // number of the piece
  std::unique_ptr<Opened> opened_;  // the piece, once it was used
};

void ReadBlock(std::vector<TensorPieces<PieceReader>>* tensors, SavedBlock* block) {
  block->buffer.resize(tensors->size());
  for (size_t i = 0; i < tensors->size(); ++i) {
    (*tensors)[i].At(block->first, [&](const PieceReader& reader, int64_t first) {
      if (block->data[i] == nullptr) {
        block->buffer[i].resize(static_cast<size_t>(block->count * reader.row_bytes()));
        block->data[i] = block->buffer[i].data();
      }
      reader.Read(first, block->count, block->data[i]);
    });
  }
}

/// Reads the blocks of a list on a few threads, a limited distance ahead of the consumer.
class ReadAhead {
 public:
  /// Reads a block, on one thread.
  using Read = std::function<void(SavedBlock*)>;

  ReadAhead(std::vector<SavedBlock> blocks, const std::function<Read()>& make_reader)
      : blocks_(std::move(blocks)), are_read_(blocks_.size(), false) {
    try {
      for (size_t i = 0; i < std::min(kReaders, blocks_.size()); ++i)
        threads_.emplace_back([this, read = make_reader()] { Run(read); });
    } catch (...) {
      End();
      throw;
    }
  }

  ~ReadAhead() { End(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Calls use(block) for all blocks. Rethrows exceptions of readers.
  void ForEach(const SavedStreams::Use& use) {
    for (size_t next = 0; next < blocks_.size(); ++next) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return are_read_[next] || error_ != nullptr; });
        if (!are_read_[next]) std::rethrow_exception(error_);
      }
      use(blocks_[next]);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        num_used_ = next + 1;
        if (next + kBlocksAhead < blocks_.size())  // its memory is free then
          blocks_[next + kBlocksAhead].buffer.swap(blocks_[next].buffer);
        else
          blocks_[next].buffer.clear();
      }
      changed_.notify_all();
    }
  }

 private:
  void Run(const Read& read) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] {
        return is_ending_ || error_ != nullptr || num_begun_ == blocks_.size() ||
               num_begun_ < num_used_ + kBlocksAhead;
      });
      if (is_ending_ || error_ != nullptr || num_begun_ == blocks_.size()) return;
      const size_t mine = num_begun_++;
      lock.unlock();
      std::exception_ptr error;
      try {
        read(&blocks_[mine]);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error == nullptr) {
        are_read_[mine] = true;
      } else if (error_ == nullptr) {
        error_ = error;
      }
      changed_.notify_all();
    }
  }

  void End() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::vector<SavedBlock> blocks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> are_read_;
  size_t num_begun_ = 0, num_used_ = 0;
  bool is_ending_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

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
  const auto make_reader = [&] {
    const auto tensors = std::make_shared<std::vector<TensorPieces<PieceReader>>>();
    for (const auto& pieces : pieces_) tensors->emplace_back(saved_, pieces);
    return [tensors](SavedBlock* block) { ReadBlock(tensors.get(), block); };
  };
  std::vector<TensorPieces<PieceSum>> sums;
  for (const auto& pieces : pieces_) sums.emplace_back(saved_, pieces);
  ReadAhead ahead(std::move(blocks), make_reader);
  ahead.ForEach([&](const SavedBlock& block) {
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i].At(block.first,
                 [&](PieceSum& sum, int64_t first) { sum.Add(first, block.count, block.data[i]); });
    }
    use(block);
  });
}

}  // namespace sok
