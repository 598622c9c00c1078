// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/saved_streams.h"

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
constexpr size_t kBlocksAhead = 2;

/// One tensor, read in ascending order; of its pieces some may be left out.
class TensorReader {
 public:
  TensorReader(SavedTensors& saved, const std::vector<SavedTensors::Piece>& pieces)
      : saved_(saved), pieces_(pieces) {}

  /// Rows [first, first + count), which are within one piece.
  void Read(int64_t first, int64_t count, std::string* data) {
    while (!reader_ || first >= pieces_[piece_].first + pieces_[piece_].count) {
      if (reader_) ++piece_;
      while (first >= pieces_[piece_].first + pieces_[piece_].count) ++piece_;
      reader_ = std::make_unique<PieceReader>(saved_, pieces_[piece_]);
    }
    reader_->Read(first - pieces_[piece_].first, count, data);
  }

 private:
  SavedTensors& saved_;
  const std::vector<SavedTensors::Piece>& pieces_;
  size_t piece_ = 0;
  std::unique_ptr<PieceReader> reader_;
};

/// Makes a list of blocks come true, on a thread, not too far ahead.
class ReadAhead {
 public:
  ReadAhead(std::vector<SavedBlock> blocks, std::function<void(SavedBlock*)> read)
      : blocks_(std::move(blocks)), read_(std::move(read)), thread_([this] { Run(); }) {}

  ~ReadAhead() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Calls use(block) for all. Throws what `read` has thrown.
  void ForEach(const SavedStreams::Use& use) {
    for (size_t next = 0; next < blocks_.size(); ++next) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return num_read_ > next || error_ != nullptr; });
        if (num_read_ <= next) std::rethrow_exception(error_);
      }
      use(blocks_[next]);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        num_used_ = next + 1;
        if (next + kBlocksAhead + 1 < blocks_.size())  // has its memory then
          blocks_[next + kBlocksAhead + 1].data.swap(blocks_[next].data);
        else
          blocks_[next].data.clear();
      }
      changed_.notify_all();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (num_read_ < blocks_.size() && error_ == nullptr) {
      changed_.wait(lock, [&] { return is_ending_ || num_read_ <= num_used_ + kBlocksAhead; });
      if (is_ending_) return;
      SavedBlock* block = &blocks_[num_read_];
      lock.unlock();
      std::exception_ptr error;
      try {
        read_(block);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error == nullptr) {
        ++num_read_;
      } else {
        error_ = error;
      }
      changed_.notify_all();
    }
  }

  std::vector<SavedBlock> blocks_;
  const std::function<void(SavedBlock*)> read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t num_read_ = 0, num_used_ = 0;
  bool is_ending_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

SavedStreams::SavedStreams(SavedTensors& saved, const std::vector<std::string>& names)
    : saved_(saved) {
  for (const std::string& name : names) pieces_.push_back(saved.PiecesOf(name));
}

bool SavedStreams::AreSlicedAlike() const {
  return std::all_of(pieces_.begin(), pieces_.end(), [&](const auto& pieces) {
    return std::equal(pieces.begin(), pieces.end(), pieces_[0].begin(), pieces_[0].end(),
                      [](const SavedTensors::Piece& a, const SavedTensors::Piece& b) {
                        return a.first == b.first && a.count == b.count;
                      });
  });
}

/// Without data yet. Each is within one piece of each tensor.
std::vector<SavedBlock> SavedStreams::Blocks(const IsWanted& is_wanted) const {
  std::set<int64_t> starts;
  int64_t num_rows = 0, row_bytes = 0;
  for (const auto& pieces : pieces_) {
    for (const SavedTensors::Piece& piece : pieces) {
      if (piece.count == 0) continue;
      starts.insert(piece.first);
      num_rows = std::max(num_rows, piece.first + piece.count);
    }
    row_bytes += SavedTensors::RowBytesOf(pieces);
  }
  const bool may_pass_over = AreSlicedAlike();
  const int64_t most = std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(1, row_bytes));
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

void SavedStreams::ForEachBlock(const IsWanted& is_wanted, const Use& use) {
  std::vector<TensorReader> readers;
  for (const auto& pieces : pieces_) readers.emplace_back(saved_, pieces);
  ReadAhead ahead(Blocks(is_wanted), [&](SavedBlock* block) {
    block->data.resize(readers.size());
    for (size_t i = 0; i < readers.size(); ++i)
      readers[i].Read(block->first, block->count, &block->data[i]);
  });
  ahead.ForEach(use);
}

}  // namespace sok
