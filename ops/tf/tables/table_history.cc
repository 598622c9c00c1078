// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/table_history.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "ops/tf/base/border.h"

namespace sok {
namespace {

namespace tf = tensorflow;

/// The uses of rows by one lookup, undone unless kept. Needs the history's mutex.
class RecordedUses {
 public:
  RecordedUses(KeyHistory* history, int64_t moment) : history_(history), moment_(moment) {}
  ~RecordedUses() {
    if (!before_.empty()) history_->ForgetOrder();
    for (auto use = before_.rbegin(); use != before_.rend(); ++use) {
      history_->SetRow(use->first, use->second);
    }
  }
  RecordedUses(const RecordedUses&) = delete;
  RecordedUses& operator=(const RecordedUses&) = delete;

  void Add(int64_t row_id) {
    const KeySeen before = history_->OfRow(row_id);
    before_.emplace_back(row_id, before);
    history_->SetRow(row_id, {before.count, moment_});
  }
  void Keep() { before_.clear(); }

 private:
  KeyHistory* const history_;
  const int64_t moment_;
  std::vector<std::pair<int64_t, KeySeen>> before_;
};

/// The number of distinct keys without a row.
int64_t NumNew(int64_t num_keys, const int64_t* keys, const std::vector<int64_t>& row_ids) {
  std::vector<int64_t> absent;
  for (int64_t i = 0; i < num_keys; ++i) {
    if (row_ids[static_cast<size_t>(i)] == kNoRow) absent.push_back(keys[i]);
  }
  std::sort(absent.begin(), absent.end());
  return std::unique(absent.begin(), absent.end()) - absent.begin();
}

/// A lookup of keys in a table with a limit of keys. Needs the history's mutex.
class LimitedLookup {
 public:
  LimitedLookup(tf::OpKernelContext* ctx, OpCall& call, TableResource* table, const TableView& view,
                int64_t num_keys, const int64_t* keys)
      : call_(call),
        table_(table),
        view_(view),
        history_(*view.history),
        num_keys_(num_keys),
        keys_(keys),
        step_began_(table->NoteStep(ctx)),
        moment_(table->Now()),
        uses_(view.history, moment_),
        size_(view.table.Size(call)) {
    // Allocates first: nothing may fail once keys are evicted.
    history_.Reserve(call.executor(), size_.num_rows + num_keys, 0);
  }

  void Find(int64_t* row_ids) {
    view_.table.Find(call_, num_keys_, keys_, row_ids);
    std::vector<int64_t> room;
    history_.Use(call_.executor(), num_keys_, call_.OnHost(row_ids, num_keys_, &room), moment_);
  }

  /// Inserts before it evicts: rows of evicted keys are not free before the step ends.
  void FindOrInsert(bool keys_are_distinct, const float* initial_rows, int64_t* row_ids) {
    const std::vector<LastUse> victims = ChooseVictims();
    view_.table.FindOrInsert(call_, num_keys_, keys_, keys_are_distinct, initial_rows, view_.planes,
                             row_ids);
    std::vector<int64_t> room;
    history_.Use(call_.executor(), num_keys_, call_.OnHost(row_ids, num_keys_, &room), moment_);
    Keep();
    EvictVictims(victims);
  }

  /// Records the uses of keys with rows if the table may become too full.
  std::vector<LastUse> ChooseVictims() {
    const int64_t most = history_.options().max_keys;
    if (size_.num_keys + num_keys_ <= most) return {};
    std::vector<int64_t> room;
    const int64_t* keys = call_.OnHost(keys_, num_keys_, &room);
    std::vector<int64_t> found(static_cast<size_t>(num_keys_));
    FindOnHost(call_, view_.table, num_keys_, keys, found.data());
    for (const int64_t row_id : found) {
      if (row_id != kNoRow) uses_.Add(row_id);
    }
    const int64_t num_new = NumNew(num_keys_, keys, found);
    const int64_t count = size_.num_keys + num_new - most;
    if (count <= 0) return {};
    std::vector<LastUse> victims = LeastRecentlyUsed(count);
    if (static_cast<int64_t>(victims.size()) == count) return victims;
    Throw(ErrorCode::kOutOfCapacity, "table '", view_.options().name, "' is full: it holds ",
          size_.num_keys, " keys of at most ", most, ", ", num_new, " new keys came, and only ",
          victims.size(),
          " keys, which this step does not use, can be evicted; raise the capacity, or use fewer "
          "keys in a step. The table is unchanged");
  }

  void Keep() { uses_.Keep(); }

 private:
  std::vector<LastUse> LeastRecentlyUsed(int64_t count) {
    std::vector<int64_t> room_of_keys, room_of_ids;
    return history_.LeastRecentlyUsed(count, step_began_, [&]() -> TableEntries {
      const TableEntries held = view_.table.Export(call_);
      return {held.count, call_.OnHost(held.keys, held.count, &room_of_keys),
              call_.OnHost(held.row_ids, held.count, &room_of_ids)};
    });
  }

  void EvictVictims(const std::vector<LastUse>& victims) {
    if (victims.empty()) return;
    std::vector<int64_t> keys, rows;
    for (const LastUse& victim : victims) {
      keys.push_back(victim.key);
      rows.push_back(victim.row_id);
    }
    EvictRows(call_, view_, table_, keys, rows);
  }

  OpCall& call_;
  TableResource* const table_;
  const TableView& view_;
  KeyHistory& history_;
  const int64_t num_keys_;
  const int64_t* const keys_;
  const int64_t step_began_;  // when it first used the table
  const int64_t moment_;
  RecordedUses uses_;  // of keys that have rows, until it is known that the new ones fit
  const TableSize size_;
};

}  // namespace

KeyHistory& HistoryOf(const TableView& view) {
  if (view.history != nullptr) return *view.history;
  Throw(ErrorCode::kFailedPrecondition, "table '", view.options().name,
        "' keeps no history of its keys: create it with a filter, eviction or a history");
}

void ImportHistory(OpCall& call, const TableView& view, const std::vector<int64_t>& keys,
                   const std::vector<KeySeen>& seen) {
  KeyHistory& history = HistoryOf(view);
  const auto num_keys = static_cast<int64_t>(keys.size());
  const bool has_filter = history.options().has_filter();
  std::vector<int64_t> row_ids(keys.size()), waiting_keys;
  std::vector<KeySeen> waiting;
  const std::lock_guard<FairSharedMutex> lock(history.mutex());
  FindOnHost(call, view.table, num_keys, keys.data(), row_ids.data());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (row_ids[i] != kNoRow || !has_filter) continue;
    waiting_keys.push_back(keys[i]);
    waiting.push_back(seen[i]);
  }
  // Allocates first: nothing may fail from here on.
  history.Reserve(call.executor(), view.table.Size(call).num_rows, num_keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    history.NoteStep(seen[i].step);
    if (row_ids[i] == kNoRow) continue;
    history.SetRow(row_ids[i], seen[i]);
    if (has_filter) history.waiting().Admit(keys[i], history.options().filter_freq);
  }
  history.waiting().Put(call.executor(), static_cast<int64_t>(waiting.size()), waiting_keys.data(),
                        waiting.data());
  history.ForgetOrder();
}

void FindOnHost(OpCall& call, Table& table, int64_t num_keys, const int64_t* keys,
                int64_t* row_ids) {
  const bool is_host = call.engine().IsHostMemory();
  int64_t* found = is_host ? row_ids : call.Temporary<int64_t>(num_keys);
  table.Find(call, num_keys, call.OnDevice(keys, num_keys), found);
  call.CopyToHost(row_ids, found, num_keys);
}

int64_t EvictRows(OpCall& call, const TableView& view, TableResource* table,
                  const std::vector<int64_t>& keys, const std::vector<int64_t>& row_ids) {
  const auto count = static_cast<int64_t>(keys.size());
  const int64_t num_evicted = view.table.Evict(call, count, call.OnDevice(keys.data(), count));
  if (view.limits_keys()) {
    for (const int64_t row_id : row_ids) view.history->SetGone(row_id);
  }
  table->fingerprints().Gone(keys, row_ids);
  table->NoteEvicted(num_evicted);
  return num_evicted;
}

/// Returns false if the table has no limit of keys.
bool FindIfLimited(tf::OpKernelContext* ctx, OpCall& call, TableResource* table, int64_t num_keys,
                   const int64_t* keys, int64_t* row_ids) {
  bool is_limited = false;
  table->WithPlanes(call, [&](const TableView& view) {
    is_limited = view.limits_keys();
    if (!is_limited) return;
    const std::lock_guard<FairSharedMutex> lock(view.history->mutex());
    LimitedLookup(ctx, call, table, view, num_keys, keys).Find(row_ids);
  });
  return is_limited;
}

void FindUsed(tf::OpKernelContext* ctx, OpCall& call, TableResource* table, int64_t num_keys,
              const int64_t* keys, int64_t* row_ids) {
  if (!FindIfLimited(ctx, call, table, num_keys, keys, row_ids)) {
    table->Find(ctx, call, num_keys, keys, row_ids);
  }
}

void NoteUses(tf::OpKernelContext* ctx, OpCall& call, TableResource* table, int64_t num_keys,
              const int64_t* keys) {
  FindIfLimited(ctx, call, table, num_keys, keys, call.Temporary<int64_t>(num_keys));
}

void FindOrInsertUsed(tf::OpKernelContext* ctx, OpCall& call, TableResource* table,
                      const TableView& view, int64_t num_keys, const int64_t* keys,
                      bool keys_are_distinct, const float* initial_rows, int64_t* row_ids) {
  if (!view.limits_keys()) {
    view.table.FindOrInsert(call, num_keys, keys, keys_are_distinct, initial_rows, view.planes,
                            row_ids);
    return;
  }
  const std::lock_guard<FairSharedMutex> lock(view.history->mutex());
  LimitedLookup lookup(ctx, call, table, view, num_keys, keys);
  lookup.FindOrInsert(keys_are_distinct, initial_rows, row_ids);
}

std::vector<LastUse> UseAndChooseVictims(tf::OpKernelContext* ctx, OpCall& call,
                                         TableResource* table, const TableView& view,
                                         int64_t num_keys, const int64_t* keys) {
  if (!view.limits_keys()) return {};
  LimitedLookup lookup(ctx, call, table, view, num_keys, keys);
  std::vector<LastUse> victims = lookup.ChooseVictims();
  lookup.Keep();
  return victims;
}

}  // namespace sok
