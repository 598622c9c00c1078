// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/resource/table_resource.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/owning_tensor.h"
#include "ops/tf/tables/resource/live_tables.h"

namespace sok {

namespace {

/// Rows that a tensor keeps from being reused.
class KeptRows {
 public:
  KeptRows(tf::core::RefCountPtr<SessionSteps> steps, const void* table, int64_t since)
      : steps_(std::move(steps)), number_(steps_->registry().KeepRows(table, since)) {}
  ~KeptRows() { steps_->registry().Release(number_); }
  KeptRows(const KeptRows&) = delete;
  KeptRows& operator=(const KeptRows&) = delete;

 private:
  const tf::core::RefCountPtr<SessionSteps> steps_;
  const int64_t number_;
};

}  // namespace

void TableResource::WithTable(const Use& use) {
  std::shared_lock<FairSharedMutex> lock(mutex_);
  CheckInitialized();
  use({*table_, *policy_});
}

Arrival TableResource::ArrivalOf(tf::OpKernelContext* ctx, Arrival::Purpose purpose,
                                 const tf::Tensor& keys) {
  Arrival arrival;
  arrival.purpose = purpose;
  arrival.num_keys = keys.NumElements();
  arrival.keys = Data<int64_t>(keys);
  Begin(ctx, &arrival);
  return arrival;
}

void TableResource::Begin(tf::OpKernelContext* ctx, Arrival* arrival) {
  const std::shared_lock<FairSharedMutex> lock(mutex_);
  CheckInitialized();
  if (policy_->needs_steps()) arrival->running_step = steps_->StepOf(ctx);
  policy_->Begin(arrival);
  arrival->generation = generations_.Current();
}

void TableResource::Find(OpCall& call, const Arrival& arrival, int64_t* row_ids) {
  std::shared_lock<FairSharedMutex> lock(mutex_);
  CheckInitialized();
  policy_->Arrive(call, *table_, {}, arrival, row_ids);
}

bool TableResource::TryFind(OpCall& call, const tf::Tensor& keys, tf::Tensor* row_ids) {
  std::shared_lock<FairSharedMutex> lock(mutex_, std::try_to_lock);
  if (!lock || !table_) return false;
  Arrival arrival;
  arrival.generation = generations_.Current();
  if (!policy_->TryFind(call, *table_, keys.NumElements(), Data<int64_t>(keys),
                        Data<int64_t>(*row_ids))) {
    return false;
  }
  *row_ids = KeepRows(*row_ids, arrival);
  return true;
}

void TableResource::WithSlots(OpCall& call, const std::vector<std::string>& slot_names,
                              const Use& use) {
  std::shared_lock<FairSharedMutex> lock(mutex_);
  UseView(call, View(slot_names), use);
}

void TableResource::WithAlone(OpCall& call, const std::vector<std::string>& slot_names,
                              const Use& use) {
  std::unique_lock<FairSharedMutex> lock(mutex_);
  const TableView view = View(slot_names);
  for (;; TakeBack(call, view)) {
    const VariableLocks locks(view.variables, VariableLocks::Mode::kAlone);
    if (!AreInVariables()) continue;
    use(view);
    return;
  }
}

std::unique_ptr<LockedPlanes> TableResource::LockPlanes(OpCall& call) {
  std::shared_lock<FairSharedMutex> lock(mutex_);
  std::unique_ptr<LockedPlanes> locked(new LockedPlanes(std::move(lock), View({})));
  for (;; TakeBack(call, locked->view())) {
    locked->variables_.emplace(locked->view().variables, VariableLocks::Mode::kShared);
    if (AreInVariables()) return locked;
    locked->variables_.reset();
  }
}

void TableResource::WithRoom(OpCall& call, int64_t num_keys, const Use& use) {
  bool are_promised = false;
  const auto withdraw = absl::MakeCleanup([&] {
    if (are_promised) promised_rows_ -= num_keys;
  });
  for (;; MakeRoom(call)) {
    std::shared_lock<FairSharedMutex> lock(mutex_);
    CheckInitialized();
    if (!HasCapacity() && !are_promised) {
      promised_rows_ += num_keys;
      are_promised = true;
    }
    if (!HasCapacity() && !HasRoom(call)) continue;
    policy_->ReturnRows(call, *table_);
    UseView(call, View({}), use);
    return;
  }
}

tf::Tensor TableResource::KeepRows(const tf::Tensor& row_ids, const Arrival& found_by) {
  std::shared_ptr<KeptRows> kept;
  if (found_by.since != 0)
    kept = std::make_shared<KeptRows>(steps_.GetNewRef(), this, found_by.since);
  return Owning(row_ids, std::move(kept), found_by.generation);
}

TableStatistics TableResource::Statistics(Call& call) {
  const std::shared_lock<FairSharedMutex> lock(mutex_);
  CheckInitialized();
  const TableSize size = table_->Size(call);
  TableStatistics found;
  found.name = table_->options().name;
  found.num_keys = size.num_keys;
  found.num_rows = size.num_rows;
  found.num_evicted = policy_->num_evicted();
  found.num_waiting = policy_->NumWaiting();
  found.capacity = table_->options().capacity;
  found.bytes = found.resident_bytes = table_->index_bytes();
  ForEachPlane([&](const PlaneVariable& plane) {
    const RowsView rows = plane.plane()->data();
    found.bytes += size.num_rows * rows.row_bytes();
    if (rows.file == nullptr) found.resident_bytes += size.num_rows * rows.row_bytes();
  });
  if (salts_) {
    found.bytes += size.num_rows * ElementBytes(Element::kBfloat16);
    found.resident_bytes += size.num_rows * ElementBytes(Element::kBfloat16);
  }
  if (storage_) {
    found.files = storage_->Statistics();
    found.resident_bytes += found.files.resident_bytes;
  }
  return found;
}

void TableResource::MakeRoom(OpCall& call) {
  std::unique_lock<FairSharedMutex> lock(mutex_);
  CheckInitialized();
  const int64_t num_rows = NumRowsToCome(call);
  TakeBack(call, View({}));
  const VariableLocks locks(Variables(), VariableLocks::Mode::kAlone);
  try {
    if (salts_) salts_->Reserve(num_rows);  // first: no variable shows it
    ForEachPlane([&](PlaneVariable& plane) { plane.plane()->Reserve(num_rows); });
  } catch (...) {
    ShowRows();  // some planes moved before memory was refused
    throw;
  }
  ShowRows();
}

/// Makes all variables show as many rows as every plane has memory for: a stock op that takes
/// several of them compares their shapes. Needs all their locks.
void TableResource::ShowRows() {
  int64_t num_rows = kMaxRows;
  ForEachPlane([&](const PlaneVariable& plane) {
    if (!plane.has_capacity()) num_rows = std::min(num_rows, plane.plane()->num_rows());
  });
  ForEachPlane([&](PlaneVariable& plane) { plane.Show(num_rows); });
}

/// The bound of rows after all inserts that wait or run. Reads the promises first: an insert that
/// ends in between is counted twice rather than left out.
int64_t TableResource::NumRowsToCome(OpCall& call) const {
  const TableOptions& options = table_->options();
  if (!options.use_hash_index) return options.capacity;
  const int64_t promised = promised_rows_;
  return std::min(options.capacity, table_->Size(call).num_rows + promised);
}

bool TableResource::HasCapacity() const { return rows_.has_capacity(); }

bool TableResource::HasRoom(OpCall& call) const { return rows_.num_rows() >= NumRowsToCome(call); }

Rounding TableResource::NextRounding() {
  if (!salts_) return {};
  return {salts_->data().As<const Bfloat16>(),
          RoundingStream(table_->options().first_value.stream, num_updates_++)};
}

/// The same one for rows and slots, in whatever order they come.
std::shared_ptr<PageCache> TableResource::CacheOf(const StorageOptions& storage) {
  if (storage.path.empty()) return storage_ = nullptr;
  if (!storage_ || storage_->folder() != storage.path ||
      storage_->most_bytes() != storage.memory_bytes) {
    storage_ = std::make_shared<PageCache>(storage.path, storage.memory_bytes);
  }
  return storage_;
}

void TableResource::CheckInitialized() const {
  if (!table_) ThrowNotInitialized(name_);
}

std::vector<tf::Var*> TableResource::Variables() {
  std::vector<tf::Var*> variables;
  ForEachPlane([&](const PlaneVariable& plane) { variables.push_back(plane.variable()); });
  return variables;
}

TableView TableResource::View(const std::vector<std::string>& slot_names) const {
  CheckInitialized();
  TableView view{*table_, *policy_};
  view.has_preset = preset_.dims() == 2;
  view.num_rows = rows_.num_rows();
  view.variables.push_back(rows_.variable());
  if (!slot_names.empty()) view.places = slots_.PlacesOf(slot_names, name_);
  view.planes.rows = rows_.plane().get();
  view.planes.salts = salts_.get();
  view.num_updates = num_updates_;
  for (const TableSlot& slot : slots_.all()) {
    view.variables.push_back(slot.plane.variable());
    view.planes.slots.push_back({slot.plane.plane().get(), slot.options.initial_value});
  }
  return view;
}

void TableResource::UseView(OpCall& call, const TableView& view, const Use& use) {
  for (;; TakeBack(call, view)) {
    const VariableLocks locks(view.variables, VariableLocks::Mode::kShared);
    if (!AreInVariables()) continue;
    use(view);
    return;
  }
}

bool TableResource::AreInVariables() const {
  const std::vector<TableSlot>& slots = slots_.all();
  return rows_.IsInVariable() && std::all_of(slots.begin(), slots.end(), [](const TableSlot& slot) {
           return slot.plane.IsInVariable();
         });
}

void TableResource::TakeBack(OpCall& call, const TableView& view) {
  const VariableLocks locks(view.variables, VariableLocks::Mode::kAlone);
  ForEachPlane([&](PlaneVariable& plane) {
    plane.TakeBack(call, [&] { return view.NumWrittenRows(call, *plane.plane()); });
  });
}

std::string TableResource::DebugString() const {
  std::shared_lock<FairSharedMutex> lock(mutex_);
  return (table_ ? "table " : "uninitialized table ") + name_;
}

tf::core::RefCountPtr<TableResource> LookupOrMakeTable(tf::OpKernelContext* ctx,
                                                       const char* input) {
  tf::core::RefCountPtr<TableResource> table;
  const tf::ResourceHandle& handle = HandleIn(ctx, input);
  auto steps = SessionSteps::Of(ctx);
  ThrowIfError(
      tf::LookupOrCreateResource<TableResource>(ctx, handle, &table, [&](TableResource** made) {
        *made = new TableResource(handle.name(), std::move(steps));
        NoteLiveTable(*made);
        return absl::OkStatus();
      }));
  return table;
}

tf::core::RefCountPtr<TableResource> LookupTable(tf::OpKernelContext* ctx,
                                                 const tf::ResourceHandle& handle) {
  tf::core::RefCountPtr<TableResource> table;
  if (!tf::LookupResource(ctx, handle, &table).ok()) ThrowNotInitialized(handle.name());
  return table;
}

}  // namespace sok
