// SPDX-License-Identifier: Apache-2.0
// How often the keys of a table came, and when last; and which of them are to have rows. In the
// host's memory, for tables of any engine.
#ifndef SOK_OPS_CPU_INDEX_KEY_HISTORY_H_
#define SOK_OPS_CPU_INDEX_KEY_HISTORY_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/base/threads/fair_shared_mutex.h"
#include "ops/cpu/index/waiting_keys.h"

namespace sok {

struct HistoryOptions {
  bool is_kept = false;
  int64_t filter_freq = 0;         // a key gets a row when it has come so often; up to 1: at once
  BloomOptions bloom;              // counts keys without a row in the place of exact counts
  float value_without_row = 0.0f;  // with a filter: every number of a key that has no row
  bool evicts = false;             // rows may be taken from keys

  bool has_filter() const { return filter_freq > 1; }
};

/// Throws kInvalidArgument for a Bloom filter of impossible sizes.
void CheckHistoryOptions(const HistoryOptions& options);

/// Keys that came in one step and have no row, each once.
struct ArrivingKeys {
  std::vector<int64_t> keys;
  std::vector<KeySeen> seen;  // with this step
};

/// Which of them get a row now: places in ArrivingKeys, ascending.
struct Admission {
  std::vector<size_t> admitted;
  std::vector<size_t> waiting;
};

/// Calls need `mutex`.
class KeyHistory {
 public:
  explicit KeyHistory(const HistoryOptions& options);

  const HistoryOptions& options() const { return options_; }
  FairSharedMutex& mutex() { return mutex_; }

  /// Adds what was known of them before to `arriving`, and decides. Makes room for what Commit
  /// writes, so that it does not fail; the rows are below `num_rows`. Throws kOutOfMemory; nothing
  /// has changed then.
  Admission Admit(Executor& executor, int64_t num_rows, ArrivingKeys* arriving);
  /// The keys that were admitted have rows now.
  void Commit(Executor& executor, const ArrivingKeys& arriving, const Admission& admission,
              const std::vector<int64_t>& rows_of_admitted);

  /// Makes room for rows below `num_rows`, and `num_waiting` more keys without a row. Throws
  /// kOutOfMemory; nothing has changed then.
  void Reserve(Executor& executor, int64_t num_rows, int64_t num_waiting);

  /// Of a row whose key came `count` times in this step.
  void Count(int64_t row_id, int64_t count, int64_t step);
  /// A row that nothing is known of counts as one that was admitted long ago.
  KeySeen OfRow(int64_t row_id) const;
  void SetRow(int64_t row_id, const KeySeen& seen);

  /// The last step that counted, or of which a checkpoint told; -1: none.
  int64_t last_step() const { return last_step_; }
  void NoteStep(int64_t step) { last_step_ = std::max(last_step_, step); }

  WaitingKeys& waiting() { return *waiting_; }

  int64_t num_bytes() const;

 private:
  KeySeen* Row(int64_t row_id);

  const HistoryOptions options_;
  FairSharedMutex mutex_;
  std::vector<KeySeen> rows_;
  std::unique_ptr<WaitingKeys> waiting_;
  int64_t last_step_ = -1;
};

}  // namespace sok

#endif  // SOK_OPS_CPU_INDEX_KEY_HISTORY_H_
