// SPDX-License-Identifier: Apache-2.0
// A table as a TensorFlow resource: the index, and the variables that hold its planes.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/base/threads/fair_shared_mutex.h"
#include "ops/history/key_policy.h"
#include "ops/history/row_generations.h"
#include "ops/tf/steps/session_steps.h"
#include "ops/tf/tables/resource/row_fingerprints.h"
#include "ops/tf/tables/resource/table_slots.h"
#include "ops/tf/tables/resource/table_view.h"

namespace sok {

class TableResource;

/// What a table holds, and has evicted since it was made.
struct TableStatistics {
  std::string name;
  int64_t num_keys = 0;
  int64_t num_rows = 0;  // that have memory
  int64_t num_evicted = 0;
  int64_t num_waiting = 0;  // keys that a filter has counted exactly and that have no row
  int64_t capacity = 0;
  int64_t bytes = 0;           // of rows, slots and the index
  int64_t resident_bytes = 0;  // of these, in memory
  PageCacheStatistics files;   // of rows and slots in files

  /// All but the name.
  std::array<int64_t, 12> Numbers() const {
    return {num_keys,
            num_rows,
            num_evicted,
            num_waiting,
            capacity,
            bytes,
            resident_bytes,
            files.allocated_bytes,
            files.rows_requested,
            files.rows_missed,
            files.bytes_read,
            files.bytes_written};
  }
};

/// A table whose planes are locked while this lives; for the thread that created it.
class LockedPlanes {
 public:
  const TableView& view() const { return view_; }

 private:
  friend class TableResource;
  LockedPlanes(std::shared_lock<FairSharedMutex> lock, TableView view)
      : lock_(std::move(lock)), view_(std::move(view)) {}

  std::shared_lock<FairSharedMutex> lock_;
  TableView view_;
  std::optional<VariableLocks> variables_;
};

/// Ops that use rows share the table; ops that replace its contents lock it exclusively. The
/// variables of planes in use are locked, too, as stock ops know no other locks.
class TableResource : public tf::ResourceBase {
 public:
  TableResource(std::string name, tf::core::RefCountPtr<SessionSteps> steps)
      : name_(std::move(name)), steps_(std::move(steps)) {}

  /// Recreates the table, empty, with its rows in `rows`. Attached slots stay attached. With
  /// `keep_existing`, no effect on a table that exists. `first_rows`: the memory behind
  /// options.first_value.rows, which nobody else uses; a table that has such rows keeps its own.
  void Initialize(OpCall& call, const TableOptions& options, const HistoryOptions& history,
                  const StorageOptions& storage, VariablePtr rows, tf::Tensor first_rows,
                  bool rounds_stochastically, bool keep_existing);

  /// Makes `variable` a plane that holds the initial value for all present and future rows. May run
  /// before Initialize. Replaces an earlier slot of the same name or variable; with
  /// `keep_existing`, no effect if a slot of this name and variable exists.
  void AttachSlot(OpCall& call, SlotOptions options, VariablePtr variable, bool keep_existing);

  /// Detaches the slot that AttachSlot attached for `variable`, if any.
  void DetachSlot(const tf::Var* variable);

  /// Makes `values` [capacity, dim] the first values of rows. Without a hash index, all keys have
  /// rows from then on.
  void SetPreset(OpCall& call, const tf::Tensor& values);

  /// Called before an op finds rows whose ids its step may keep: see KeyPolicy::Begin.
  void NoteStep(tf::OpKernelContext* ctx) {
    Arrival unused;
    Begin(ctx, &unused);
  }
  /// Called when rows of all ranks have come: from now on Initialize makes others of them.
  void NoteLookupOfRanks() { was_looked_up_ = true; }
  /// Returns `row_ids` in the same memory. As long as this memory lives, in any tensor, these rows
  /// are not reused in tables with eviction: the ops of an eager lookup are steps of their own.
  /// GenerationOf gives their generation. `found_by`: what found them.
  tf::Tensor KeepRows(const tf::Tensor& row_ids, const Arrival& found_by);
  /// Keys that come in the step of `ctx`, after KeyPolicy::Begin.
  Arrival ArrivalOf(tf::OpKernelContext* ctx, Arrival::Purpose purpose, const tf::Tensor& keys);
  /// The number of draws of keys at random before this one, since the table was made.
  int64_t CountDraw() { return num_draws_++; }
  /// The keys that wait for rows in the step of `ctx`, with their ids. Needs the planes to be
  /// locked.
  std::vector<std::shared_ptr<const StepRegistry::KeysWithIds>> WaitingKeys(
      tf::OpKernelContext* ctx) {
    return steps_->registry().WaitingKeys(steps_->StepOf(ctx), policy_->contents());
  }
  /// StepRegistry::GiveIds in the step of `ctx`. Needs the planes to be locked.
  int64_t GiveIds(tf::OpKernelContext* ctx, std::vector<int64_t> keys) {
    return steps_->registry().GiveIds(steps_->StepOf(ctx), policy_->contents(), std::move(keys));
  }
  /// Which row ids of gradients still are those of their keys, with a hash index.
  RowGenerations& generations() { return generations_; }
  /// Waits. kFailedPrecondition if Initialize has not run.
  TableStatistics Statistics(Call& call);
  RowFingerprints& fingerprints() { return *fingerprints_; }
  /// Called when keys of these contents have lost their rows.
  void NoteGone(const Evicted& gone) {
    generations_.Evict(gone.rows);
    fingerprints_->Gone(gone.keys, gone.rows);
  }

  /// KeyPolicy::Arrive for keys that need no rows.
  void Find(OpCall& call, const Arrival& arrival, int64_t* row_ids);
  /// As Find, but with Table::TryFind, and the row ids become those of KeepRows.
  bool TryFind(OpCall& call, const tf::Tensor& keys, tf::Tensor* row_ids);

  /// Calls use(view) with the table and its policy; kFailedPrecondition if Initialize has not run.
  using Use = std::function<void(const TableView& view)>;
  void WithTable(const Use& use);

  /// Calls use(view) with the planes locked; errors as WithTable, and if there is no such slot.
  void WithPlanes(OpCall& call, const Use& use) { WithSlots(call, {}, use); }
  void WithSlots(OpCall& call, const std::vector<std::string>& slot_names, const Use& use);

  /// As WithSlots, with exclusive access to the table and its variables: no update is half done.
  void WithAlone(OpCall& call, const std::vector<std::string>& slot_names, const Use& use);

  /// The planes, locked as for WithPlanes. To lock several tables, lock them in the order of the
  /// resources' addresses.
  std::unique_ptr<LockedPlanes> LockPlanes(OpCall& call);

  /// As WithPlanes, with memory in the planes for `num_keys` new keys.
  void WithRoom(OpCall& call, int64_t num_keys, const Use& use);

  /// Calls fill(view, fresh) with an empty table of the same options and with its own planes, and
  /// then replaces the old ones by these. Has exclusive access meanwhile. If anything fails, the
  /// table is unchanged. With `restored`, its streams go on from there.
  using Fill = std::function<void(const TableView& view, const TableView& fresh)>;
  void Replace(OpCall& call, const std::vector<std::string>& slot_names, const Fill& fill,
               std::optional<SavedStream> restored = std::nullopt);

  /// How the next update rounds rows. Needs the planes to be locked.
  Rounding NextRounding();

  std::string DebugString() const override;

 private:
  void Begin(tf::OpKernelContext* ctx, Arrival* arrival);

  // The calls below need mutex_.
  void CheckInitialized() const;
  std::shared_ptr<PageCache> CacheOf(const StorageOptions& storage);
  TableView View(const std::vector<std::string>& slot_names) const;
  void UseView(OpCall& call, const TableView& view, const Use& use);
  bool AreInVariables() const;
  void TakeBack(OpCall& call, const TableView& view);
  bool HasCapacity() const;
  bool HasRoom(OpCall& call) const;
  int64_t NumRowsToCome(OpCall& call) const;
  template <typename Visit>
  void ForEachPlane(const Visit& visit) {
    if (table_) visit(rows_);
    for (TableSlot& slot : slots_.all()) visit(slot.plane);
  }
  std::vector<tf::Var*> Variables();
  void ShowRows();

  void SetContents(std::shared_ptr<Table> table, std::unique_ptr<KeyPolicy> policy);
  void MakeRoom(OpCall& call);
  void WritePreset(OpCall& call, Plane& rows, const tf::Tensor& values) const;

  const std::string name_;
  const tf::core::RefCountPtr<SessionSteps> steps_;
  mutable FairSharedMutex mutex_;
  std::shared_ptr<Table> table_;
  PlaneVariable rows_;
  tf::Tensor preset_;      // [capacity, dim], or a scalar if there is none
  tf::Tensor first_rows_;  // the memory of the table's FirstValue::rows
  TableSlots slots_;
  std::shared_ptr<Plane> salts_;  // of rows of two bytes, if updates round them stochastically
  std::atomic<int64_t> num_updates_{0};     // of rows, by rules
  std::shared_ptr<PageCache> storage_;      // of rows and slots in files; else nullptr
  std::unique_ptr<KeyPolicy> policy_;       // of these contents
  std::atomic<bool> was_looked_up_{false};  // by several ranks, since it was made or restored
  std::atomic<int64_t> num_draws_{0};
  RowGenerations generations_;
  const std::shared_ptr<RowFingerprints> fingerprints_ = std::make_shared<RowFingerprints>();
  std::atomic<int64_t> promised_rows_{0};  // to inserts that wait or run; without a capacity only
};

/// Copies rows [0, num_rows), in the engine's memory, as floats.
void CopyRowsTo(OpCall& call, const RowsView& rows, int64_t num_rows, float* to);
/// The reverse; rounds to nearest.
void CopyRowsFrom(OpCall& call, const float* from, int64_t num_rows, const RowsView& rows);

/// The table of an input; created, without Initialize, if it does not exist yet.
tf::core::RefCountPtr<TableResource> LookupOrMakeTable(tf::OpKernelContext* ctx, const char* input);

/// The table of a handle; if it does not exist, kFailedPrecondition with the initializer to run.
tf::core::RefCountPtr<TableResource> LookupTable(tf::OpKernelContext* ctx,
                                                 const tf::ResourceHandle& handle);

}  // namespace sok
