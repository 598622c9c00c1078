// SPDX-License-Identifier: Apache-2.0
// What happens to keys that come to a table: which of them get rows, and which keys lose theirs.
// For tables of any engine; histories are in the host's memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "ops/history/key_history.h"
#include "ops/history/step_registry.h"

namespace sok {

/// Keys that have lost their rows, whose ids running steps may still use.
struct Evicted {
  std::vector<int64_t> keys;
  std::vector<int64_t> rows;
};

/// Keys that come to a table in one lookup or training step; not all purposes give them rows.
struct Arrival : KeyBatch {
  enum class Purpose {
    kFind,      // keys without a row get none
    kUse,       // as kFind, but a table with a limit of keys records their use
    kMakeRoom,  // as kUse, and evicts what kInsert would evict
    kInsert,    // all keys get rows
    kTrain,     // distinct keys are counted, and get rows if they have come often enough
  };
  Purpose purpose = Purpose::kFind;
  /// [num_keys], on the host: the row ids that a lookup has found; nullptr: unknown. Only keys with
  /// kNoRow get rows, and initial_rows are theirs, in their order.
  const int64_t* found = nullptr;
  int64_t running_step = 0;  // the step that looks them up
  int64_t since = 0;         // by KeyPolicy::Begin: when that step first used the table; 0: unused
  int64_t generation = 0;    // of the row ids of keys that keep their rows
  /// With a limit of keys, except kUse: called with the keys that are about to lose their rows.
  /// What it throws leaves them in the table.
  std::function<void(const Evicted& victims)> before_eviction;
  // kTrain, on the host:
  int64_t training_step = 0;
  const int32_t* counts = nullptr;  // [num_keys], occurrences in this training step
};

/// Which keys SokEvictKeys evicts.
struct EvictionRule {
  int64_t step = 0;           // below 0: the one after the last counted step
  int64_t steps_to_live = 0;  // 0: no limit
  float l2_threshold = 0.0f;  // of half a row's squared norm; 0: no limit
};

/// The policy of one table and its contents. A table that keeps no history of its keys gives all of
/// them rows and evicts none. Thread-safe. After an error, nothing has changed.
class KeyPolicy {
 public:
  using OnEvicted = std::function<void(const Evicted& gone)>;
  /// `steps` know the table by `table`. Calls `on_evicted` before rows are reused.
  KeyPolicy(const HistoryOptions& options, StepRegistry& steps, const void* table,
            OnEvicted on_evicted);
  /// For new contents of the table.
  std::unique_ptr<KeyPolicy> ForNewContents() const;

  const HistoryOptions& options() const { return history_.options(); }
  /// nullptr if none is kept.
  KeyHistory* history() { return options().is_kept ? &history_ : nullptr; }
  /// kFailedPrecondition if none is kept.
  KeyHistory& KeptHistory(const Table& table);
  /// Whether Begin needs the running step.
  bool needs_steps() const { return options().may_evict() || options().has_filter(); }
  /// A unique number of the contents, by which steps know them.
  int64_t contents() const { return contents_; }

  /// A moment later than all moments until now.
  int64_t Now() { return steps_.Now(); }

  /// Called before a step finds rows whose ids it may keep: they are not reused while it runs.
  void Begin(Arrival* arrival);
  /// row_ids[i] = the row of keys[i], kNoRow, or, for a key that kTrain has counted and that waits
  /// for a row, an id of StepRegistry::GiveIds. With a limit of keys, new keys above the limit
  /// evict the least recently used ones that the step has not used, which are returned in the order
  /// of their last uses; throws kOutOfCapacity if those are too few. Otherwise throws as Table.
  Evicted Arrive(Call& call, Table& table, const Planes& planes, const Arrival& arrival,
                 int64_t* row_ids);
  /// As Table::TryFind.
  bool TryFind(Call& call, Table& table, int64_t num_keys, const int64_t* keys, int64_t* row_ids) {
    return !options().is_kept && table.TryFind(call, num_keys, keys, row_ids);
  }

  /// Evicts keys that last occurred before step - steps_to_live, and keys with half a squared norm
  /// below l2_threshold; keys that wait for a row are always judged by the step. A key without a
  /// recorded step gets `step`. Takes the history's lock for a few keys at a time. Returns the
  /// number of keys that have lost a row.
  int64_t Evict(Call& call, Table& table, const Plane& rows, EvictionRule rule);

  /// Erases those of the keys that have rows, which new keys may reuse at once: no step may be
  /// running. Returns them; calls no on_evicted.
  Evicted Erase(Call& call, Table& table, const std::vector<int64_t>& keys);

  /// Lets new keys reuse the rows of evicted keys that no step uses any more.
  void ReturnRows(Call& call, Table& table);

  /// The history of keys on the host.
  std::vector<KeySeen> HistoryOf(Call& call, Table& table, int64_t num_keys, const int64_t* keys);
  /// Replaces the history of these distinct keys. Keys without a row still wait for one, however
  /// often they occurred; without a filter their history is dropped.
  void Import(Call& call, Table& table, const std::vector<int64_t>& keys,
              const std::vector<KeySeen>& seen);
  /// The number of keys that a filter has counted exactly and that have no row.
  int64_t NumWaiting();
  /// The number of keys evicted since the table was made, from earlier contents, too.
  int64_t num_evicted() const { return num_evicted_; }

 private:
  struct CountedKeys {
    std::vector<size_t> positions;  // in the arrival
    std::vector<int64_t> places;    // among the keys that were not found
    std::vector<int64_t> keys;
    std::vector<KeySeen> seen;  // including this step
  };

  Evicted InsertAbsent(Call& call, Table& table, const Planes& planes, Arrival arrival,
                       int64_t* row_ids);
  void Train(Call& call, Table& table, const Planes& planes, const Arrival& arrival,
             int64_t* row_ids);
  // The calls below need the history's mutex.
  void HideGiven(Call& call, const Arrival& arrival, int64_t* row_ids);
  Evicted ArriveAtLimit(Call& call, Table& table, const Planes& planes, const Arrival& arrival,
                        int64_t* row_ids);
  Evicted ChooseVictims(Call& call, Table& table, const Arrival& arrival);
  void EvictRows(Call& call, Table& table, const Evicted& gone);
  void Decide(const Arrival& arrival, CountedKeys* admitted, CountedKeys* waiting);

  int64_t EvictUnlessUsed(Call& call, Table& table, int64_t first_step,
                          const std::vector<int64_t>& keys);

  struct EvictedRows {
    int64_t moment;
    int64_t count;
  };
  StepRegistry& steps_;
  const void* const table_;
  const OnEvicted on_evicted_;
  const int64_t contents_;
  KeyHistory history_;
  std::atomic<int64_t> num_evicted_{0};
  std::deque<EvictedRows> evicted_;  // not returned yet; needs the history's mutex
};

}  // namespace sok
