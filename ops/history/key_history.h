// SPDX-License-Identifier: Apache-2.0
// How often each key of a table occurred, and when last; decides which keys get rows, and which
// lose them. In the host's memory, for tables of any engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/base/memory/reserved_memory.h"
#include "ops/base/threads/fair_shared_mutex.h"
#include "ops/history/use_order.h"
#include "ops/history/waiting_keys.h"

namespace sok {

struct HistoryOptions {
  bool is_kept = false;
  int64_t filter_freq = 0;  // occurrences after which a key gets a row; <= 1: at once
  BloomOptions bloom;       // counts keys without a row, instead of exact counts
  float value_without_row =
      0.0f;             // with a filter: the value of every column of a key without a row
  bool evicts = false;  // keys may lose their rows
  /// Most keys with rows; 0: no limit. Steps are then moments of lookups, not of training, and
  /// beyond the limit the least recently used keys lose their rows.
  int64_t max_keys = 0;

  bool has_filter() const { return filter_freq > 1; }
  bool limits_keys() const { return max_keys > 0; }
  bool may_evict() const { return evicts || limits_keys(); }
};

/// Throws kInvalidArgument for invalid sizes of a Bloom filter, and for max_keys beside a filter or
/// eviction.
void CheckHistoryOptions(const HistoryOptions& options);

/// All calls need `mutex`.
class KeyHistory {
 public:
  explicit KeyHistory(const HistoryOptions& options);

  const HistoryOptions& options() const { return options_; }
  FairSharedMutex& mutex() { return mutex_; }

  /// Allocates for rows below `num_rows` and, with a filter, for counts of `num_keys` more keys.
  /// Throws kOutOfMemory without effect.
  void Reserve(Executor& executor, int64_t num_rows, int64_t num_keys);

  /// Counts `count` occurrences, in this step, of the key of a row.
  void Count(int64_t row_id, int64_t count, int64_t step);
  /// With a limit of keys, which counts no occurrences: each row but kNoRow is used now. Rows may
  /// repeat.
  void Use(Executor& executor, int64_t num_rows, const int64_t* row_ids, int64_t moment);
  /// History of a row; a row without one counts as admitted long ago.
  KeySeen OfRow(int64_t row_id) const;
  /// The number at this place of kKeyNumbers, of OfRow.
  int64_t NumberOfRow(int64_t row_id, size_t place) const {
    const KeyNumber& number = kKeyNumbers[place];
    const bool has_it = row_id < num_rows_ && Records(number);
    return has_it ? NumbersAt(place)[row_id] : WithoutHistory().*number.field;
  }
  void SetRow(int64_t row_id, const KeySeen& seen);
  /// Records that a row has lost its key: the next one has no history yet.
  void SetGone(int64_t row_id);

  /// With a limit of keys: up to `count` keys last used before the moment `before`, ascending by
  /// last use, then by key, except those of `kept_rows` (ascending). They are all of the
  /// table if they are fewer.
  std::vector<LastUse> LeastRecentlyUsed(Call& call, Table& table, int64_t count, int64_t before,
                                         const std::vector<int64_t>& kept_rows);
  /// Called after rows were given an earlier step.
  void ForgetOrder() { use_order_ = {}; }

  /// The last step that was counted or restored from a checkpoint; -1: none.
  int64_t last_step() const { return last_step_; }
  void NoteStep(int64_t step) { last_step_ = std::max(last_step_, step); }

  WaitingKeys& waiting() { return *waiting_; }

  int64_t num_bytes() const;

 private:
  static constexpr int64_t kGone = INT64_MIN;  // the step of a row without a key

  bool Records(const KeyNumber& number) const {
    return number.with_limit || !options_.limits_keys();
  }
  int64_t* NumbersAt(size_t place) const { return static_cast<int64_t*>(numbers_[place].data()); }
  int64_t* counts() const { return NumbersAt(0); }
  int64_t* steps() const { return NumbersAt(1); }
  KeySeen WithoutHistory() const;
  /// Throws kOutOfMemory without effect.
  void ReserveRows(int64_t num_rows);
  /// Rows up to this one have a count and a step from here on.
  void CoverRow(int64_t row_id);

  const HistoryOptions options_;
  FairSharedMutex mutex_;
  // Of rows, by place in kKeyNumbers; empty if it is not recorded. In huge pages, as lookups write
  // anywhere in them.
  std::vector<ReservedMemory> numbers_;
  int64_t num_rows_ = 0;
  std::unique_ptr<WaitingKeys> waiting_;
  UseOrder use_order_;
  int64_t last_step_ = -1;
};

}  // namespace sok
