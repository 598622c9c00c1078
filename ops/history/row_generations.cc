// SPDX-License-Identifier: Apache-2.0
#include "ops/history/row_generations.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>

namespace sok {
namespace {

constexpr int kRowBits = 32;
constexpr int64_t kRowMask = (int64_t{1} << kRowBits) - 1;
constexpr int64_t kMark = int64_t{1} << 62;  // of all ids; they stay above 0
constexpr int64_t kGenerationMask = (int64_t{1} << 30) - 1;
// Between rows, ids differ by this in their generations, too: a sum or product of an id and a
// number is no id of the row that it would name.
constexpr int64_t kStep = 0x2545f491;

/// Generations count on beyond 30 bits; 0 is none.
int64_t NextGeneration() {
  static std::atomic<int64_t> last{0};
  return ++last;
}

/// Of all tables: a generation tells which table it belongs to.
struct All {
  std::mutex mutex;
  std::unordered_set<RowGenerations*> of_tables;
};

All& AllGenerations() {
  static All* all = new All;  // tables may live until the process ends
  return *all;
}

bool IsMarked(int64_t id) { return id >= kMark; }

std::lock_guard<std::mutex> Locked() { return std::lock_guard<std::mutex>(AllGenerations().mutex); }

}  // namespace

int64_t WithGeneration(int64_t row_id, int64_t generation) {
  if (row_id < 0 || generation == 0) return row_id;
  return kMark | ((generation + row_id * kStep) & kGenerationMask) << kRowBits | row_id;
}

int64_t WithoutGeneration(int64_t id) { return id < 0 ? id : id & kRowMask; }

RowGenerations::RowGenerations() {
  const auto lock = Locked();
  AllGenerations().of_tables.insert(this);
}

RowGenerations::~RowGenerations() {
  const auto lock = Locked();
  AllGenerations().of_tables.erase(this);
}

int64_t RowGenerations::Current() {
  const auto lock = Locked();
  return are_used_ ? CurrentOne() : 0;
}

int64_t RowGenerations::CurrentOne() {
  if (is_over_) {
    generations_.push_back(NextGeneration());
    if (generations_.size() > kMostGenerations) generations_.pop_front();
    is_over_ = false;
  }
  return generations_.back();
}

void RowGenerations::Replace(bool use_hash_index) {
  const auto lock = Locked();
  are_used_ = use_hash_index;
  may_dense_be_stale_ = has_dense_;
  generations_.clear();
  evicted_until_ = {};
  is_over_ = true;
}

void RowGenerations::Evict(const std::vector<int64_t>& rows) {
  const auto lock = Locked();
  may_dense_be_stale_ = may_dense_be_stale_ || (has_dense_ && !rows.empty());
  if (generations_.empty() || rows.empty()) return;
  const auto last = static_cast<size_t>(*std::max_element(rows.begin(), rows.end()));
  if (last >= evicted_until_.size()) evicted_until_.resize(std::max(last + 1, 2 * last));
  for (const int64_t row : rows) evicted_until_[static_cast<size_t>(row)] = generations_.back();
  is_over_ = true;
}

bool RowGenerations::IsOne(int64_t generation) const {
  return !generations_.empty() &&
         (generation == generations_.back() ||
          std::binary_search(generations_.begin(), generations_.end(), generation));
}

/// That of an id if it is of this table.
int64_t RowGenerations::GenerationOf(int64_t id) const {
  const int64_t last = generations_.empty() ? 0 : generations_.back();
  const int64_t generation = (id >> kRowBits) - (id & kRowMask) * kStep;
  return last - ((last - generation) & kGenerationMask);
}

RowGenerations::Meaning RowGenerations::MeaningOf(int64_t id) const {
  if (id < 0 && id >= -kRowMask) return Meaning::kRow;
  if (!IsMarked(id)) return Meaning::kNoRowOfAny;
  const int64_t generation = GenerationOf(id);
  if (!IsOne(generation)) return Meaning::kReplaced;
  const auto row = static_cast<size_t>(WithoutGeneration(id));
  const bool is_evicted = row < evicted_until_.size() && generation <= evicted_until_[row];
  return is_evicted ? Meaning::kEvicted : Meaning::kRow;
}

std::vector<RowGenerations::Meaning> RowGenerations::MeaningsOf(int64_t count, const int64_t* ids) {
  std::vector<Meaning> meanings(static_cast<size_t>(count));
  const auto lock = Locked();
  std::transform(ids, ids + count, meanings.begin(), [&](int64_t id) { return MeaningOf(id); });
  return meanings;
}

std::vector<RowGenerations::Meaning> RowGenerations::MakeDense(int64_t count, const int64_t* ids) {
  std::vector<Meaning> meanings(static_cast<size_t>(count), Meaning::kRow);
  const auto lock = Locked();
  RowGenerations* table = nullptr;
  for (int64_t i = 0; i < count; ++i) {
    if (!IsMarked(ids[i])) continue;
    for (RowGenerations* each : AllGenerations().of_tables) {
      if (table != nullptr) break;
      if (each->IsOne(each->GenerationOf(ids[i]))) table = each;
    }
    const auto place = static_cast<size_t>(i);
    meanings[place] = table == nullptr ? Meaning::kReplaced : table->MeaningOf(ids[i]);
  }
  if (table != nullptr) table->has_dense_ = true;
  return meanings;
}

void RowGenerations::NoteDense() {
  const auto lock = Locked();
  has_dense_ = true;
}

bool RowGenerations::MayDenseBeStale() {
  const auto lock = Locked();
  return may_dense_be_stale_;
}

}  // namespace sok
