// SPDX-License-Identifier: Apache-2.0
#include "ops/history/key_history.h"

#include <algorithm>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr int64_t kMostHashes = 64;
constexpr int64_t kRowsAhead = 24;  // fetched before they are written
constexpr int64_t kNanosecondsOfUse = 20;

static_assert(kKeyNumbers[0].field == &KeySeen::count && kKeyNumbers[1].field == &KeySeen::step,
              "counts() and steps() are the first two");

std::unique_ptr<WaitingKeys> MakeWaitingKeys(const HistoryOptions& options) {
  return options.has_filter() && options.bloom.num_counters > 0 ? MakeBloomCounts(options.bloom)
                                                                : MakeExactCounts();
}

}  // namespace

void CheckHistoryOptions(const HistoryOptions& options) {
  if (options.limits_keys() && (options.evicts || options.filter_freq > 0)) {
    Throw(ErrorCode::kInvalidArgument, "max_keys needs evicts=false and filter_freq=0, got ",
          options.max_keys, ", evicts=", options.evicts ? "true" : "false",
          " and filter_freq=", options.filter_freq);
  }
  const BloomOptions& bloom = options.bloom;
  if (bloom.num_counters == 0) return;
  const int64_t bytes = bloom.counter_bytes;
  const bool is_size = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  if (!is_size || bloom.num_counters < 0 || bloom.num_counters > INT64_MAX / 8 ||
      bloom.num_hashes < 1 || bloom.num_hashes > kMostHashes) {
    Throw(ErrorCode::kInvalidArgument, "a counting Bloom filter has 1 to ", kMostHashes,
          " hashes and counters of 1, 2, 4 or 8 bytes, got ", bloom.num_hashes, " hashes and ",
          bloom.num_counters, " counters of ", bytes, " bytes");
  }
  if (options.filter_freq > bloom.most_count()) {
    Throw(ErrorCode::kInvalidArgument, "counters of ", bytes, " bytes count up to ",
          bloom.most_count(), ", fewer than filter_freq, ", options.filter_freq,
          "; make them larger");
  }
}

KeyHistory::KeyHistory(const HistoryOptions& options)
    : options_(options), waiting_(MakeWaitingKeys(options)) {
  for (size_t i = 0; i < kNumKeyNumbers; ++i) numbers_.emplace_back(0, PageSize::kHuge);
}

void KeyHistory::Reserve(Executor& executor, int64_t num_rows, int64_t num_keys) {
  ReserveRows(num_rows);
  if (options_.has_filter()) waiting_->Reserve(executor, num_keys);
}

void KeyHistory::Count(int64_t row_id, int64_t count, int64_t step) {
  CoverRow(row_id);
  counts()[row_id] += count;
  steps()[row_id] = step;
}

void KeyHistory::Use(Executor& executor, int64_t num_rows, const int64_t* row_ids, int64_t moment) {
  int64_t last = kNoRow;
  for (int64_t i = 0; i < num_rows; ++i) last = std::max(last, row_ids[i]);
  if (last == kNoRow) return;
  CoverRow(last);
  executor.ParallelFor(num_rows, kNanosecondsOfUse, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {  // rows are anywhere in memory
      const int64_t next = row_ids[std::min(i + kRowsAhead, num_rows - 1)];
      if (next != kNoRow) __builtin_prefetch(steps() + next, /*rw=*/1);
      if (row_ids[i] == kNoRow) continue;
      // Threads that have the same row write the same.
      __atomic_store_n(steps() + row_ids[i], moment, __ATOMIC_RELAXED);
    }
  });
}

KeySeen KeyHistory::OfRow(int64_t row_id) const {
  KeySeen seen;
  for (size_t i = 0; i < kNumKeyNumbers; ++i) seen.*kKeyNumbers[i].field = NumberOfRow(row_id, i);
  return seen;
}

KeySeen KeyHistory::WithoutHistory() const {
  KeySeen seen;
  if (!options_.limits_keys()) seen.count = std::max<int64_t>(1, options_.filter_freq);
  return seen;
}

void KeyHistory::SetRow(int64_t row_id, const KeySeen& seen) {
  CoverRow(row_id);
  for (size_t i = 0; i < kNumKeyNumbers; ++i) {
    if (Records(kKeyNumbers[i])) NumbersAt(i)[row_id] = seen.*kKeyNumbers[i].field;
  }
}

void KeyHistory::SetGone(int64_t row_id) {
  if (row_id >= num_rows_) return;  // has no history
  KeySeen seen = WithoutHistory();
  if (options_.limits_keys()) seen.step = kGone;
  SetRow(row_id, seen);
}

std::vector<LastUse> KeyHistory::LeastRecentlyUsed(Call& call, Table& table, int64_t count,
                                                   int64_t before,
                                                   const std::vector<int64_t>& kept_rows) {
  const auto last_use = [this](int64_t row_id) { return OfRow(row_id).step; };
  std::vector<int64_t> keys_buffer, ids_buffer;
  return use_order_.First(count, before, kept_rows, last_use, [&]() -> TableEntries {
    const TableEntries entries = table.Export(call);
    return {entries.count, call.OnHost(entries.keys, entries.count, &keys_buffer),
            call.OnHost(entries.row_ids, entries.count, &ids_buffer)};
  });
}

void KeyHistory::CoverRow(int64_t row_id) {
  ReserveRows(row_id + 1);
  const KeySeen seen = WithoutHistory();
  for (size_t i = 0; num_rows_ <= row_id && i < kNumKeyNumbers; ++i) {
    if (!Records(kKeyNumbers[i])) continue;
    std::fill(NumbersAt(i) + num_rows_, NumbersAt(i) + row_id + 1, seen.*kKeyNumbers[i].field);
  }
  num_rows_ = std::max(num_rows_, row_id + 1);
}

void KeyHistory::ReserveRows(int64_t num_rows) {
  const size_t bytes = static_cast<size_t>(num_rows) * sizeof(int64_t);
  for (size_t i = 0; i < kNumKeyNumbers; ++i) {
    ReservedMemory& memory = numbers_[i];
    if (!Records(kKeyNumbers[i]) || bytes <= memory.size_bytes()) continue;
    memory.Grow(std::max(bytes, 2 * memory.size_bytes()));
  }
}

int64_t KeyHistory::num_bytes() const {
  int64_t bytes_of_row = 0;
  for (const KeyNumber& number : kKeyNumbers) bytes_of_row += Records(number) ? 8 : 0;
  return num_rows_ * bytes_of_row + waiting_->num_bytes() + use_order_.num_bytes();
}

}  // namespace sok
