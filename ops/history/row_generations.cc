// SPDX-License-Identifier: Apache-2.0
#include "ops/history/row_generations.h"

#include <algorithm>
#include <atomic>

namespace sok {
namespace {

constexpr int kRowBits = 32;
constexpr int64_t kRowMask = (int64_t{1} << kRowBits) - 1;
constexpr int64_t kGenerationMask = (int64_t{1} << 31) - 1;  // ids stay above 0

/// Generations count on beyond 31 bits, but none is 0 in its lower 31.
int64_t NextGeneration() {
  static std::atomic<int64_t> last{0};
  const int64_t next = ++last;
  return (next & kGenerationMask) == 0 ? ++last : next;
}

}  // namespace

int64_t WithGeneration(int64_t row_id, int64_t generation) {
  return row_id < 0 ? row_id : row_id | (generation & kGenerationMask) << kRowBits;
}

int64_t WithoutGeneration(int64_t id) { return id < 0 ? id : id & kRowMask; }

int64_t RowGenerations::Current() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!are_used_) return 0;
  if (is_over_) {
    generations_.push_back(NextGeneration());
    if (generations_.size() > kMostGenerations) generations_.pop_front();
    is_over_ = false;
  }
  return generations_.back();
}

void RowGenerations::Replace(bool use_hash_index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  are_used_ = use_hash_index;
  generations_.clear();
  evicted_until_ = {};
  is_over_ = true;
}

void RowGenerations::Evict(const std::vector<int64_t>& rows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (generations_.empty() || rows.empty()) return;
  const auto last = static_cast<size_t>(*std::max_element(rows.begin(), rows.end()));
  if (last >= evicted_until_.size()) evicted_until_.resize(std::max(last + 1, 2 * last));
  for (const int64_t row : rows) evicted_until_[static_cast<size_t>(row)] = generations_.back();
  is_over_ = true;
}

/// Whether it is one of these contents. Needs mutex_.
bool RowGenerations::IsOne(int64_t generation) const {
  return generation == generations_.back() ||
         std::binary_search(generations_.begin(), generations_.end(), generation);
}

std::vector<RowGenerations::Meaning> RowGenerations::MeaningsOf(int64_t count, const int64_t* ids) {
  std::vector<Meaning> meanings(static_cast<size_t>(count), Meaning::kRow);
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t last = generations_.empty() ? 0 : generations_.back();
  for (size_t i = 0; i < meanings.size(); ++i) {
    if (ids[i] < 0) continue;
    const int64_t lower = ids[i] >> kRowBits;
    const int64_t generation = last - ((last - lower) & kGenerationMask);
    const auto row = static_cast<size_t>(WithoutGeneration(ids[i]));
    if (lower == 0) {
      meanings[i] = Meaning::kNoRowOfAny;
    } else if (last == 0 || !IsOne(generation)) {
      meanings[i] = Meaning::kReplaced;
    } else if (row < evicted_until_.size() && generation <= evicted_until_[row]) {
      meanings[i] = Meaning::kEvicted;
    }
  }
  return meanings;
}

}  // namespace sok
