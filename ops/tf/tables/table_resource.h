// SPDX-License-Identifier: Apache-2.0
// A table as a TensorFlow resource: the index, and which variables hold its planes.
#ifndef SOK_OPS_TF_TABLES_TABLE_RESOURCE_H_
#define SOK_OPS_TF_TABLES_TABLE_RESOURCE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/base/threads/fair_shared_mutex.h"
#include "ops/cpu/index/key_history.h"
#include "ops/tf/steps/session_steps.h"
#include "ops/tf/tables/row_fingerprints.h"
#include "ops/tf/tables/table_slots.h"

namespace sok {

/// A table and its planes, for one op. Valid while the resource holds its locks.
struct TableView {
  Table& table;
  Planes planes = {};
  std::vector<size_t> places = {};  // planes.slots[places[i]] is the slot called slot_names[i]
  bool has_preset = false;          // all rows of planes.rows have been written
  int64_t num_rows = 0;             // that the variables show
  std::vector<tensorflow::Var*> variables = {};  // of planes.rows, then of planes.slots
  KeyHistory* history = nullptr;                 // nullptr: none is kept

  const TableOptions& options() const { return table.options(); }
  /// Rows that have been written in one of `planes`; the others may have no memory. Waits.
  int64_t NumWrittenRows(Call& call, const Plane& plane) const;
  /// The plane that the variable behind a handle shows; kFailedPrecondition when it is none of the
  /// table's.
  Plane& PlaneOf(tensorflow::OpKernelContext* ctx, const tensorflow::ResourceHandle& handle) const;
  /// As PlaneOf, of width dim.
  const float* RowsOf(tensorflow::OpKernelContext* ctx,
                      const tensorflow::ResourceHandle& handle) const;
};

class TableResource;

/// A table with its planes locked, from LockPlanes until it goes; for the thread that made it.
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

/// Ops that use rows share the table; what gives it other contents has it alone. Variables are
/// locked, too, while their planes are used: stock ops know of nothing else.
class TableResource : public tensorflow::ResourceBase {
 public:
  TableResource(std::string name, tensorflow::core::RefCountPtr<SessionSteps> steps)
      : name_(std::move(name)), steps_(std::move(steps)) {}

  /// Makes the table anew, empty, with its rows in `rows`. Slots that were attached stay attached.
  /// With `keep_existing`, a table that is there stays as it is.
  void Initialize(OpCall& call, const TableOptions& options, const HistoryOptions& history,
                  VariablePtr rows, bool keep_existing);

  /// Makes `variable` a plane that holds the initial value for every row there is and every row
  /// that will come. May run before Initialize. Takes the place of an earlier slot of the same
  /// name or variable; with `keep_existing`, one of both stays.
  void AttachSlot(OpCall& call, const SlotOptions& options, VariablePtr variable,
                  bool keep_existing);

  /// Forgets the slot that AttachSlot was given `variable` for, if there is one.
  void DetachSlot(const tensorflow::Var* variable);

  /// Makes `values` [capacity, dim] what the rows hold before their keys come.
  void SetPreset(OpCall& call, const tensorflow::Tensor& values);

  /// Called before an op finds rows, whose ids its step may keep: where keys are evicted, nobody
  /// gets these rows while the step runs.
  void NoteStep(tensorflow::OpKernelContext* ctx) {
    if (notes_steps_) steps_->registry().Use(steps_->StepOf(ctx), this);
  }
  /// The step of `ctx`, which is noted, has given these rows, all of them ones that no key had, to
  /// keys: for itself, these have none until it ends. With the history's mutex.
  void NoteGiven(tensorflow::OpKernelContext* ctx, const std::vector<int64_t>& rows) {
    steps_->registry().Give(steps_->StepOf(ctx), contents_, rows);
  }
  /// `num_rows` rows are nobody's now, in the order in which the table keeps them; steps that run
  /// may still hold their ids. With the history's mutex.
  void NoteEvicted(int64_t num_rows) { evicted_.Add(steps_->registry(), num_rows); }
  RowFingerprints& fingerprints() { return *fingerprints_; }

  /// As Table::Find, for an op; where a filter admits keys, without those that its own step has
  /// admitted: whether a key has a row in a step is what held before it.
  void Find(tensorflow::OpKernelContext* ctx, OpCall& call, int64_t num_keys, const int64_t* keys,
            int64_t* row_ids);
  /// As Find, as Table::TryFind.
  bool TryFind(OpCall& call, int64_t num_keys, const int64_t* keys, int64_t* row_ids);

  /// Calls use(table); kFailedPrecondition when Initialize has not run.
  void WithTable(const std::function<void(Table& table)>& use);

  /// Calls use(view) with the planes locked; errors as WithTable, and when there is no such slot.
  using Use = std::function<void(const TableView& view)>;
  void WithPlanes(OpCall& call, const Use& use) { WithSlots(call, {}, use); }
  void WithSlots(OpCall& call, const std::vector<std::string>& slot_names, const Use& use);

  /// As WithSlots, while nobody else uses the table, its variables or `others`: no update is there
  /// by half.
  void WithAlone(OpCall& call, const std::vector<std::string>& slot_names,
                 const std::vector<tensorflow::Var*>& others, const Use& use);

  /// The planes, locked as for WithPlanes. Who holds those of several tables has asked for them in
  /// the order of the resources' addresses.
  std::unique_ptr<LockedPlanes> LockPlanes(OpCall& call);

  /// As WithPlanes, with room in the planes for `num_keys` new keys.
  void WithRoom(OpCall& call, int64_t num_keys, const Use& use);

  /// Calls fill(view, fresh) with an empty table with planes of its own, of the same options, and
  /// puts these in the place of the old ones. Nobody else uses the table meanwhile. When something
  /// fails, the table is as it was. With `stream`, keys that come later start by that one
  /// (FirstValue::stream).
  using Fill = std::function<void(const TableView& view, const TableView& fresh)>;
  void Replace(OpCall& call, const std::vector<std::string>& slot_names, const Fill& fill,
               std::optional<uint64_t> stream = std::nullopt);

  std::string DebugString() const override;

 private:
  // These need mutex_.
  void CheckInitialized() const;
  TableView View(const std::vector<std::string>& slot_names) const;
  void UseView(OpCall& call, const TableView& view, const Use& use);
  bool AreInVariables() const;
  void TakeBack(OpCall& call, const TableView& view);
  bool HasCapacity() const;
  bool HasRoom(OpCall& call) const;
  int64_t NumRowsToCome(OpCall& call) const;
  template <typename Visit>
  void ForEachPlane(const Visit& visit);
  std::vector<tensorflow::Var*> Variables();
  void ShowRows();

  void ReturnRows(OpCall& call);
  void ForgetContents();
  void MakeRoom(OpCall& call);
  void WritePreset(OpCall& call, Plane& rows, const tensorflow::Tensor& values) const;

  const std::string name_;
  const tensorflow::core::RefCountPtr<SessionSteps> steps_;
  mutable FairSharedMutex mutex_;
  std::shared_ptr<Table> table_;
  PlaneVariable rows_;
  tensorflow::Tensor preset_;  // [capacity, dim], or a scalar: none
  TableSlots slots_;
  std::unique_ptr<KeyHistory> history_;
  std::atomic<bool> notes_steps_{false};
  EvictedRows evicted_;   // as the next, of the table's contents
  int64_t contents_ = 0;  // another number for all others
  const std::shared_ptr<RowFingerprints> fingerprints_ = std::make_shared<RowFingerprints>();
  std::atomic<int64_t> promised_rows_{0};  // to inserts that wait or run, without a capacity
};

/// The table behind an input; made, without Initialize, when it does not exist yet.
tensorflow::core::RefCountPtr<TableResource> LookupOrMakeTable(tensorflow::OpKernelContext* ctx,
                                                               const char* input);

/// The table behind a handle; kFailedPrecondition, saying what to run, when it does not exist.
tensorflow::core::RefCountPtr<TableResource> LookupTable(tensorflow::OpKernelContext* ctx,
                                                         const tensorflow::ResourceHandle& handle);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_TABLE_RESOURCE_H_
