// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/resource/row_fingerprints.h"

#include <algorithm>
#include <cstdlib>

#include "ops/base/error.h"
#include "ops/engine/row_sum.h"

namespace sok {
namespace {

constexpr int64_t kRowsPerWord = 64;
constexpr int64_t kRunRows = 1 << 17;  // rows whose sums fit into a cache
constexpr int64_t kWordNanoseconds = 40;

/// Calls use(first_row, num_rows) for ranges that contain live rows, at most kRunRows at a time.
template <typename Use>
void ForEachRun(int64_t num_rows, const RowBits* live, const Use& use) {
  const int64_t num_words = (num_rows + kRowsPerWord - 1) / kRowsPerWord;
  const auto has_live_rows = [&](int64_t word) {
    return live == nullptr || (*live)[static_cast<size_t>(word)] != 0;
  };
  for (int64_t word = 0; word < num_words;) {
    int64_t end = word;
    while (end < num_words && end - word < kRunRows / kRowsPerWord && has_live_rows(end)) ++end;
    if (end > word) {
      const int64_t first = word * kRowsPerWord;
      use(first, std::min(end * kRowsPerWord, num_rows) - first);
    }
    word = std::max(end, word + 1);
  }
}

void AddHistory(KeyHistory* history, int64_t first_row, int64_t num_rows, uint64_t* sums) {
  const std::lock_guard<FairSharedMutex> lock(history->mutex());
  for (int64_t i = 0; i < num_rows; ++i) {
    const KeySeen seen = history->OfRow(first_row + i);
    for (const KeyNumber& number : kKeyNumbers)
      sums[i] = MixedSum(sums[i], static_cast<uint64_t>(seen.*number.field));
  }
}

/// Sets saved[i] to now[i] for those of at most 64 rows that are of interest. Returns the bits of
/// those that differed.
uint64_t Update(int64_t count, uint64_t of_interest, const uint64_t* now, uint64_t* saved) {
  uint64_t changed = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t sum = std::max<uint64_t>(now[i], 2);  // less stands for no sum
    const bool differs = saved[i] != sum && ((of_interest >> i) & 1) != 0;
    changed |= static_cast<uint64_t>(differs) << i;
    if (differs) saved[i] = sum;
  }
  return changed;
}

}  // namespace

void RowFingerprints::FreeSums::operator()(uint64_t* sums) const { std::free(sums); }

std::string RowFingerprints::base() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return base_;
}

void RowFingerprints::Forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++number_;
  base_.clear();
  chunks_.clear();
  gone_.clear();
  changed_.clear();
}

void RowFingerprints::Gone(const std::vector<int64_t>& keys, const std::vector<int64_t>& row_ids) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!WasSaved(row_ids[i])) continue;  // else those that come and go would fill the memory
    gone_.push_back(keys[i]);
    *SumsFrom(row_ids[i]) = kNever;  // whichever key gets the row
  }
}

std::unique_ptr<RowChanges> RowFingerprints::Compare(OpCall& call, int64_t num_rows,
                                                     const RowBits* live,
                                                     const std::vector<RowsView>& planes,
                                                     KeyHistory* history) {
  const std::lock_guard<std::mutex> lock(mutex_);
  DropSave();
  ++number_;  // a save in progress will notice that it is not the latest, even if this one fails
  changed_.assign(static_cast<size_t>((num_rows + kRowsPerWord - 1) / kRowsPerWord), 0);
  auto* sums = call.Temporary<uint64_t>(std::min(num_rows, kRunRows));
  ForEachRun(num_rows, live, [&](int64_t first, int64_t count) {
    // The bits of zeros.
    call.engine().Fill(call, reinterpret_cast<float*>(sums), 2 * count, 0.0f);
    for (const RowsView& plane : planes) call.engine().SumRows(call, first, count, plane, sums);
    std::vector<uint64_t> buffer;
    uint64_t* now = sums;
    if (!call.engine().IsHostMemory()) {
      call.OnHost(sums, count, &buffer);
      now = buffer.data();
    }
    if (history != nullptr) AddHistory(history, first, count, now);
    CompareRun(call, first, count, live, now);
  });
  return std::unique_ptr<RowChanges>(new RowChanges(shared_from_this(), number_, gone_));
}

/// Finds rows whose sums differ from the saved ones, and counts them as saved.
void RowFingerprints::CompareRun(OpCall& call, int64_t first_row, int64_t num_rows,
                                 const RowBits* live, const uint64_t* now) {
  // Allocates before threads use the chunks.
  for (int64_t row = first_row; row < first_row + num_rows; row += kRowsPerWord) SumsFrom(row);
  const int64_t num_words = (num_rows + kRowsPerWord - 1) / kRowsPerWord;
  call.executor().ParallelFor(num_words, kWordNanoseconds, [&](int64_t begin, int64_t end) {
    for (int64_t word = begin; word < end; ++word) {
      const int64_t first = word * kRowsPerWord;
      const auto place = static_cast<size_t>(first_row / kRowsPerWord + word);
      const uint64_t of_interest = live == nullptr ? ~uint64_t{0} : (*live)[place];
      changed_[place] = Update(std::min(kRowsPerWord, num_rows - first), of_interest, now + first,
                               SumsFrom(first_row + first));
    }
  });
}

/// The sums of the rows from `row` to the end of its chunk.
uint64_t* RowFingerprints::SumsFrom(int64_t row) {
  const auto chunk = static_cast<size_t>(row / kChunkRows);
  if (chunks_.size() <= chunk) chunks_.resize(chunk + 1);
  if (!chunks_[chunk]) {  // chunks are allocated with their rows
    chunks_[chunk].reset(static_cast<uint64_t*>(std::calloc(kChunkRows, sizeof(uint64_t))));
    if (!chunks_[chunk])
      Throw(ErrorCode::kOutOfMemory, "no memory for the fingerprints of saved rows");
  }
  return chunks_[chunk].get() + row % kChunkRows;
}

/// Whether the last save, or the one in progress, may have the row's key.
bool RowFingerprints::WasSaved(int64_t row) {
  const auto chunk = static_cast<size_t>(row / kChunkRows);
  return chunk < chunks_.size() && chunks_[chunk] && *SumsFrom(row) != kNever;
}

/// Counts the rows that it has found as changed again.
void RowFingerprints::DropSave() {
  for (size_t word = 0; word < changed_.size(); ++word) {
    for (uint64_t bits = changed_[word]; bits != 0; bits &= bits - 1)
      *SumsFrom(static_cast<int64_t>(word) * kRowsPerWord + __builtin_ctzll(bits)) = kOther;
  }
  changed_.clear();
}

void RowChanges::Commit(const std::string& id) {
  const std::lock_guard<std::mutex> lock(saved_->mutex_);
  if (saved_->number_ != number_) return;
  saved_->base_ = id;
  saved_->changed_ = {};
  const auto num_gone = static_cast<std::ptrdiff_t>(gone_keys_.size());
  saved_->gone_.erase(saved_->gone_.begin(), saved_->gone_.begin() + num_gone);
  ++saved_->number_;  // so that its destructor drops nothing
}

RowChanges::~RowChanges() {
  const std::lock_guard<std::mutex> lock(saved_->mutex_);
  if (saved_->number_ == number_) saved_->DropSave();
}

}  // namespace sok
