// SPDX-License-Identifier: Apache-2.0
#include "ops/history/key_policy.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "ops/base/error.h"
#include "ops/engine/engine.h"

namespace sok {
namespace {

int64_t NextContents() {
  static std::atomic<int64_t> last{0};
  return ++last;
}

/// The number of distinct keys without a row.
int64_t NumNew(int64_t num_keys, const int64_t* keys, const std::vector<int64_t>& row_ids) {
  std::vector<int64_t> absent;
  for (int64_t i = 0; i < num_keys; ++i) {
    if (row_ids[static_cast<size_t>(i)] == kNoRow) absent.push_back(keys[i]);
  }
  std::sort(absent.begin(), absent.end());
  return std::unique(absent.begin(), absent.end()) - absent.begin();
}

/// Inserts new keys of kTrain and returns their rows.
std::vector<int64_t> Insert(Call& call, Table& table, const Planes& planes, const Arrival& arrival,
                            const std::vector<int64_t>& keys, const std::vector<int64_t>& places) {
  const auto count = static_cast<int64_t>(keys.size());
  std::vector<int64_t> rows(keys.size());
  if (keys.empty()) return rows;
  float* initial_rows = nullptr;
  if (arrival.initial_rows != nullptr) {
    const int64_t dim = table.options().dim;
    initial_rows = call.Temporary<float>(count * dim);
    call.engine().GatherRows(call, count, call.OnDevice(places.data(), count),
                             FloatRows(arrival.initial_rows, dim), initial_rows);
  }
  int64_t* row_ids = call.Temporary<int64_t>(count);
  table.FindOrInsert(call, {count, call.OnDevice(keys.data(), count), true, initial_rows}, planes,
                     row_ids);
  call.CopyToHost(rows.data(), row_ids, count);
  return rows;
}

/// Keys that are given rows wait for none any more.
void InsertPastFilter(Call& call, KeyHistory* history, Table& table, const Planes& planes,
                      const KeyBatch& batch, int64_t* row_ids) {
  std::vector<int64_t> buffer;
  const int64_t* keys = call.OnHost(batch.keys, batch.num_keys, &buffer);
  const std::lock_guard<FairSharedMutex> lock(history->mutex());
  // Allocates first: nothing may fail once keys have rows.
  history->Reserve(call.executor(), 0, batch.num_keys);
  table.FindOrInsert(call, batch, planes, row_ids);
  for (int64_t i = 0; i < batch.num_keys; ++i)
    history->waiting().Admit(keys[i], history->options().filter_freq);
}

}  // namespace

KeyPolicy::KeyPolicy(const HistoryOptions& options, StepRegistry& steps, const void* table,
                     OnEvicted on_evicted)
    : steps_(steps),
      table_(table),
      on_evicted_(std::move(on_evicted)),
      contents_(NextContents()),
      history_(options) {}

std::unique_ptr<KeyPolicy> KeyPolicy::ForNewContents() const {
  auto made = std::make_unique<KeyPolicy>(options(), steps_, table_, on_evicted_);
  made->num_evicted_ = num_evicted_.load();
  return made;
}

void KeyPolicy::Begin(Arrival* arrival) {
  if (needs_steps()) arrival->since = steps_.Use(arrival->running_step, table_);
}

KeyHistory& KeyPolicy::KeptHistory(const Table& table) {
  if (options().is_kept) return history_;
  Throw(ErrorCode::kFailedPrecondition, "table '", table.options().name,
        "' keeps no history of its keys: create it with a filter, eviction or a history");
}

Evicted KeyPolicy::Arrive(Call& call, Table& table, const Planes& planes, const Arrival& arrival,
                          int64_t* row_ids) {
  using Purpose = Arrival::Purpose;
  if (arrival.purpose == Purpose::kTrain) {
    Train(call, table, planes, arrival, row_ids);
  } else if (arrival.found != nullptr) {
    return InsertAbsent(call, table, planes, arrival, row_ids);
  } else if (options().limits_keys() && arrival.purpose != Purpose::kFind) {
    const std::lock_guard<FairSharedMutex> lock(history_.mutex());
    return ArriveAtLimit(call, table, planes, arrival, row_ids);
  } else if (arrival.purpose == Purpose::kInsert) {
    if (options().has_filter()) {
      InsertPastFilter(call, &history_, table, planes, arrival, row_ids);
    } else {
      table.FindOrInsert(call, arrival, planes, row_ids);
    }
  } else {
    table.Find(call, arrival.num_keys, arrival.keys, row_ids);
    if (!options().has_filter()) return {};
    // A training step that has inserted rows may not yet have said which: it holds this till then.
    const std::shared_lock<FairSharedMutex> lock(history_.mutex());
    HideGiven(call, arrival, row_ids);
  }
  return {};
}

/// The other keys keep the row ids that were found.
Evicted KeyPolicy::InsertAbsent(Call& call, Table& table, const Planes& planes, Arrival arrival,
                                int64_t* row_ids) {
  std::vector<int64_t> ids(arrival.found, arrival.found + arrival.num_keys);
  std::vector<int64_t> keys_buffer, ids_buffer, absent;
  const int64_t* keys = call.OnHost(arrival.keys, arrival.num_keys, &keys_buffer);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kNoRow) absent.push_back(keys[i]);
  }
  arrival.found = nullptr;
  arrival.num_keys = static_cast<int64_t>(absent.size());
  arrival.keys = call.OnDevice(absent.data(), arrival.num_keys);
  auto* inserted = call.Temporary<int64_t>(arrival.num_keys);
  Evicted gone = Arrive(call, table, planes, arrival, inserted);
  const int64_t* next = call.OnHost(inserted, arrival.num_keys, &ids_buffer);
  for (int64_t& id : ids) {
    if (id == kNoRow) id = *next++;
  }
  call.CopyFromHost(row_ids, ids.data(), static_cast<int64_t>(ids.size()));
  return gone;
}

/// A step sees keys as they were before it.
void KeyPolicy::HideGiven(Call& call, const Arrival& arrival, int64_t* row_ids) {
  const std::vector<int64_t> given = steps_.GivenRows(arrival.running_step, contents_);
  if (given.empty()) return;
  std::vector<int64_t> found(static_cast<size_t>(arrival.num_keys));
  call.CopyToHost(found.data(), row_ids, arrival.num_keys);
  for (int64_t& row_id : found) {
    if (std::binary_search(given.begin(), given.end(), row_id)) row_id = kNoRow;
  }
  call.CopyFromHost(row_ids, found.data(), arrival.num_keys);
}

Evicted KeyPolicy::ArriveAtLimit(Call& call, Table& table, const Planes& planes,
                                 const Arrival& arrival, int64_t* row_ids) {
  const int64_t num_keys = arrival.num_keys;
  const int64_t moment = steps_.Now();
  // Allocates first: nothing may fail once keys are evicted.
  history_.Reserve(call.executor(), table.Size(call).num_rows + num_keys, 0);
  Evicted victims;
  if (arrival.purpose != Arrival::Purpose::kUse) victims = ChooseVictims(call, table, arrival);
  if (arrival.before_eviction) arrival.before_eviction(victims);
  // Inserts before it evicts: rows of evicted keys are not free before the step ends.
  if (arrival.purpose == Arrival::Purpose::kInsert) {
    table.FindOrInsert(call, arrival, planes, row_ids);
  } else {
    table.Find(call, num_keys, arrival.keys, row_ids);
  }
  std::vector<int64_t> buffer;
  history_.Use(call.executor(), num_keys, call.OnHost(row_ids, num_keys, &buffer), moment);
  EvictRows(call, table, victims);
  return victims;
}

/// The keys that the new ones of the arrival evict; none that the arrival uses.
Evicted KeyPolicy::ChooseVictims(Call& call, Table& table, const Arrival& arrival) {
  const int64_t most = options().max_keys;
  const int64_t size = table.Size(call).num_keys;
  if (size + arrival.num_keys <= most) return {};
  std::vector<int64_t> buffer;
  const int64_t* keys = call.OnHost(arrival.keys, arrival.num_keys, &buffer);
  std::vector<int64_t> found = table.FindOnHost(call, arrival.num_keys, keys);
  const int64_t num_new = NumNew(arrival.num_keys, keys, found);
  const int64_t count = size + num_new - most;
  if (count <= 0) return {};
  std::sort(found.begin(), found.end());
  Evicted victims;
  for (const LastUse& use : history_.LeastRecentlyUsed(call, table, count, arrival.since, found)) {
    victims.keys.push_back(use.key);
    victims.rows.push_back(use.row_id);
  }
  if (static_cast<int64_t>(victims.keys.size()) == count) return victims;
  Throw(ErrorCode::kOutOfCapacity, "table '", table.options().name, "' is full: it holds ", size,
        " keys of at most ", most, ", ", num_new, " new keys came, and only ", victims.keys.size(),
        " keys, which this step does not use, can be evicted; raise the capacity, or use fewer "
        "keys in a step. The table is unchanged");
}

void KeyPolicy::EvictRows(Call& call, Table& table, const Evicted& gone) {
  if (gone.keys.empty()) return;
  const auto count = static_cast<int64_t>(gone.keys.size());
  table.Evict(call, count, call.OnDevice(gone.keys.data(), count));
  for (const int64_t row_id : gone.rows) history_.SetGone(row_id);
  num_evicted_ += count;
  on_evicted_(gone);
  evicted_.push_back({steps_.Now(), count});  // later: steps may have found the keys until now
}

Evicted KeyPolicy::Erase(Call& call, Table& table, const std::vector<int64_t>& keys) {
  const auto num_keys = static_cast<int64_t>(keys.size());
  const std::lock_guard<FairSharedMutex> lock(history_.mutex());
  const std::vector<int64_t> row_ids = table.FindOnHost(call, num_keys, keys.data());
  Evicted gone;
  for (size_t i = 0; i < row_ids.size(); ++i) {
    if (row_ids[i] == kNoRow) continue;
    gone.keys.push_back(keys[i]);
    gone.rows.push_back(row_ids[i]);
  }
  table.Erase(call, num_keys, call.OnDevice(keys.data(), num_keys));
  for (const int64_t row_id : gone.rows) history_.SetGone(row_id);
  return gone;
}

void KeyPolicy::Train(Call& call, Table& table, const Planes& planes, const Arrival& arrival,
                      int64_t* row_ids) {
  KeyHistory& history = KeptHistory(table);
  const std::lock_guard<FairSharedMutex> lock(history.mutex());
  table.Find(call, arrival.num_keys, arrival.keys, row_ids);
  std::vector<int64_t> buffer, rows(static_cast<size_t>(arrival.num_keys));
  call.CopyToHost(rows.data(), row_ids, arrival.num_keys);
  const int64_t* keys = call.OnHost(arrival.keys, arrival.num_keys, &buffer);
  CountedKeys admitted, waiting;  // the former holds both until Decide
  int64_t place = -1;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (arrival.found != nullptr && arrival.found[i] != kNoRow) continue;
    ++place;
    if (rows[i] != kNoRow) continue;
    admitted.positions.push_back(i);
    admitted.places.push_back(place);
    admitted.keys.push_back(keys[i]);
  }
  Decide(arrival, &admitted, &waiting);
  // Allocates first: nothing may fail once keys have rows.
  history.Reserve(call.executor(), table.Size(call).num_rows + arrival.num_keys,
                  static_cast<int64_t>(admitted.keys.size() + waiting.keys.size()));
  const std::vector<int64_t> given =
      Insert(call, table, planes, arrival, admitted.keys, admitted.places);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != kNoRow) history.Count(rows[i], arrival.counts[i], arrival.training_step);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (options().has_filter()) history.waiting().Admit(admitted.keys[i], options().filter_freq);
    history.SetRow(given[i], admitted.seen[i]);
    rows[admitted.positions[i]] = given[i];
  }
  history.NoteStep(arrival.training_step);
  if (options().has_filter()) steps_.Give(arrival.running_step, contents_, given);
  if (!waiting.keys.empty()) {
    history.waiting().Put(call.executor(), static_cast<int64_t>(waiting.keys.size()),
                          waiting.keys.data(), waiting.seen.data());
    int64_t id = steps_.GiveIds(arrival.running_step, contents_, std::move(waiting.keys));
    for (const size_t position : waiting.positions) rows[position] = id--;
  }
  call.CopyFromHost(row_ids, rows.data(), arrival.num_keys);
}

/// Adds this step to the history of the keys, and moves those that do not get a row to `waiting`.
void KeyPolicy::Decide(const Arrival& arrival, CountedKeys* admitted, CountedKeys* waiting) {
  const CountedKeys all = std::exchange(*admitted, {});
  std::vector<KeySeen> seen(all.keys.size());
  if (options().has_filter()) {
    history_.waiting().Find(static_cast<int64_t>(seen.size()), all.keys.data(), seen.data());
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    seen[i].count += arrival.counts[all.positions[i]];
    seen[i].step = arrival.training_step;
    const bool is_enough = !options().has_filter() || seen[i].count >= options().filter_freq;
    CountedKeys* const decided = is_enough ? admitted : waiting;
    decided->positions.push_back(all.positions[i]);
    decided->places.push_back(all.places[i]);
    decided->keys.push_back(all.keys[i]);
    decided->seen.push_back(seen[i]);
  }
}

void KeyPolicy::ReturnRows(Call& call, Table& table) {
  if (!options().may_evict()) return;
  const std::lock_guard<FairSharedMutex> lock(history_.mutex());
  int64_t num_rows = 0;
  auto used = evicted_.begin();
  for (; used != evicted_.end() && !steps_.IsInUse(table_, used->moment); ++used)
    num_rows += used->count;
  if (num_rows > 0) table.ReturnRows(call, num_rows);  // may fail
  evicted_.erase(evicted_.begin(), used);
}

std::vector<KeySeen> KeyPolicy::HistoryOf(Call& call, Table& table, int64_t num_keys,
                                          const int64_t* keys) {
  KeyHistory& history = KeptHistory(table);
  std::vector<KeySeen> seen(static_cast<size_t>(num_keys));
  const std::lock_guard<FairSharedMutex> lock(history.mutex());
  const std::vector<int64_t> rows = table.FindOnHost(call, num_keys, keys);
  history.waiting().Find(num_keys, keys, seen.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != kNoRow) seen[i] = history.OfRow(rows[i]);
  }
  return seen;
}

void KeyPolicy::Import(Call& call, Table& table, const std::vector<int64_t>& keys,
                       const std::vector<KeySeen>& seen) {
  KeyHistory& history = KeptHistory(table);
  const auto num_keys = static_cast<int64_t>(keys.size());
  std::vector<int64_t> waiting_keys;
  std::vector<KeySeen> waiting;
  const std::lock_guard<FairSharedMutex> lock(history.mutex());
  const std::vector<int64_t> rows = table.FindOnHost(call, num_keys, keys.data());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (rows[i] != kNoRow || !options().has_filter()) continue;
    waiting_keys.push_back(keys[i]);
    waiting.push_back(seen[i]);
  }
  // Allocates first: nothing may fail from here on.
  history.Reserve(call.executor(), table.Size(call).num_rows, num_keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    history.NoteStep(seen[i].step);
    if (rows[i] == kNoRow) continue;
    history.SetRow(rows[i], seen[i]);
    if (options().has_filter()) history.waiting().Admit(keys[i], options().filter_freq);
  }
  history.waiting().Put(call.executor(), static_cast<int64_t>(waiting.size()), waiting_keys.data(),
                        waiting.data());
  history.ForgetOrder();
}

int64_t KeyPolicy::NumWaiting() {
  if (!options().has_filter()) return 0;
  const std::lock_guard<FairSharedMutex> lock(history_.mutex());
  return history_.waiting().num_keys();
}

}  // namespace sok
