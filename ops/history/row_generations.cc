// SPDX-License-Identifier: Apache-2.0
#include "ops/history/row_generations.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <mutex>
#include <unordered_set>

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

/// Of all tables: a generation tells which table it belongs to.
struct All {
  std::mutex mutex;
  std::unordered_set<RowGenerations*> of_tables;
};

All& AllGenerations() {
  static All* all = new All;  // tables may live until the process ends
  return *all;
}

std::lock_guard<std::mutex> Locked() { return std::lock_guard<std::mutex>(AllGenerations().mutex); }

}  // namespace

int64_t WithGeneration(int64_t row_id, int64_t generation) {
  return row_id < 0 ? row_id : row_id | (generation & kGenerationMask) << kRowBits;
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
  had_dense_ = had_dense_ || !dense_.empty();
  dense_.clear();
  generations_.clear();
  evicted_until_ = {};
  is_over_ = true;
}

void RowGenerations::Evict(const std::vector<int64_t>& rows) {
  const auto lock = Locked();
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
  return last - ((last - (id >> kRowBits)) & kGenerationMask);
}

RowGenerations::Meaning RowGenerations::MeaningOf(int64_t id) const {
  if (id < 0) return Meaning::kRow;
  if (id >> kRowBits == 0) return Meaning::kNoRowOfAny;
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

std::vector<RowGenerations::Meaning> RowGenerations::MakeDense(int64_t count, const int64_t* ids,
                                                               int64_t number) {
  std::vector<Meaning> meanings(static_cast<size_t>(count), Meaning::kRow);
  const auto lock = Locked();
  RowGenerations* table = nullptr;
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >> kRowBits == 0) continue;
    for (RowGenerations* each : AllGenerations().of_tables) {
      if (table != nullptr) break;
      if (each->IsOne(each->GenerationOf(ids[i]))) table = each;
    }
    const auto place = static_cast<size_t>(i);
    meanings[place] = table == nullptr ? Meaning::kReplaced : table->MeaningOf(ids[i]);
  }
  if (table != nullptr) table->BeginDense(number);
  return meanings;
}

void RowGenerations::NoteDense(int64_t number) {
  const auto lock = Locked();
  if (are_used_) BeginDense(number);
}

void RowGenerations::BeginDense(int64_t number) {
  const int64_t generation = CurrentOne();
  if (!dense_.empty() && generation == dense_.back().generation) return;
  dense_.push_back({dense_.empty() ? number : std::max(number, dense_.back().number), generation});
  if (dense_.size() > kMostGenerations) dense_.pop_front();
}

bool RowGenerations::IsDenseReplaced(int64_t number) {
  const auto lock = Locked();
  return had_dense_ && (dense_.empty() || (number != 0 && number < dense_.front().number));
}

std::vector<int64_t> RowGenerations::EvictedSinceDense(int64_t number) {
  const auto lock = Locked();
  std::vector<int64_t> rows;
  if (dense_.empty()) return rows;
  const auto is_later = [&](const Dense& each) { return number != 0 && number < each.number; };
  const auto later = std::partition_point(dense_.begin(), dense_.end(), std::not_fn(is_later));
  const int64_t generation = later == dense_.begin() ? 0 : std::prev(later)->generation;
  if (generation == generations_.back() && !is_over_) return rows;
  for (size_t row = 0; row < evicted_until_.size(); ++row) {
    if (evicted_until_[row] >= std::max<int64_t>(generation, 1)) {
      rows.push_back(static_cast<int64_t>(row));
    }
  }
  return rows;
}

}  // namespace sok
