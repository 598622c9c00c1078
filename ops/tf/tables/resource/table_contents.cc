// SPDX-License-Identifier: Apache-2.0
// How a table's contents are made, filled and replaced.
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "ops/tf/base/border.h"
#include "ops/tf/tables/resource/table_resource.h"

namespace sok {

void TableResource::Initialize(OpCall& call, const TableOptions& options,
                               const HistoryOptions& history, const StorageOptions& storage,
                               VariablePtr rows, tf::Tensor first_rows, bool rounds_stochastically,
                               bool keep_existing) {
  std::unique_lock<FairSharedMutex> lock(mutex_);  // no op may see the variable with another plane
  if (keep_existing && table_) return;
  TableOptions made = options;
  if (made.first_value.kind == FirstValue::Kind::kRows &&
      first_rows_.shape() == first_rows.shape()) {
    first_rows = first_rows_;  // as they were drawn first
    made.first_value.rows = Data<float>(first_rows);
  }
  std::shared_ptr<Table> table = call.engine().MakeTable(made);
  const PlaneOptions plane_options{options.capacity, options.dim, options.use_hash_index,
                                   options.first_value.element, CacheOf(storage)};
  std::shared_ptr<Plane> plane = call.engine().MakePlane(plane_options);
  std::shared_ptr<Plane> salts;
  if (rounds_stochastically && plane_options.element != Element::kFloat32) {
    salts =
        call.engine().MakePlane({options.capacity, 1, options.use_hash_index, Element::kBfloat16});
  }
  auto policy = std::make_unique<KeyPolicy>(history, steps_->registry(), this,
                                            [this](const Evicted& gone) { NoteGone(gone); });
  PlaneVariable fresh(std::move(rows), plane_options);
  if (!fresh.has_capacity()) plane->Reserve(rows_.num_rows());  // running steps may read these
  if (!fresh.has_capacity() && salts) salts->Reserve(rows_.num_rows());
  slots_.RemoveOtherCapacities(options.capacity);
  slots_.Remove(fresh.variable());
  rows_ = std::move(fresh);
  SetContents(std::move(table), std::move(policy));
  num_draws_ = 0;
  salts_ = std::move(salts);
  num_updates_ = 0;
  if (was_looked_up_.exchange(false)) steps_->NoteInitializedAgain(options.name);
  preset_ = tf::Tensor();
  first_rows_ = std::move(first_rows);
  const VariableLocks locks(Variables(), VariableLocks::Mode::kAlone);
  rows_.Put(std::move(plane));
  ShowRows();
}

void TableResource::SetPreset(OpCall& call, const tf::Tensor& values) {
  std::unique_lock<FairSharedMutex> lock(mutex_);
  CheckInitialized();
  const TableOptions& options = table_->options();
  if (values.shape() != tf::TensorShape({options.capacity, options.dim})) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name,
          "': the initializer returned values of shape ", values.shape().DebugString(),
          ", expected [", options.capacity, ", ", options.dim, "]");
  }
  rows_.plane()->Reserve(options.capacity);
  UseView(call, View({}), [&](const TableView& view) {
    WritePreset(call, *view.planes.rows, values);
    view.table.InsertAll(call, view.planes);
  });
  preset_ = values;
}

void TableResource::WritePreset(OpCall& call, Plane& rows, const tf::Tensor& values) const {
  if (values.dims() != 2) return;
  rows.Reserve(table_->options().capacity);
  rows.ExpectRows(rows.num_rows());
  CopyRowsFrom(call, Data<float>(values), values.dim_size(0), rows.data());
}

void TableResource::AttachSlot(OpCall& call, SlotOptions options, VariablePtr variable,
                               bool keep_existing) {
  std::unique_lock<FairSharedMutex> lock(mutex_);
  if (keep_existing && slots_.Has(options.name, variable.get())) return;
  if (table_ && table_->options().capacity != options.plane.capacity) {
    Throw(ErrorCode::kInvalidArgument, "slot ", options.name, " has ", options.plane.capacity,
          " rows, but table '", name_, "' has ", table_->options().capacity);
  }
  if (table_ && rows_.variable() == variable.get()) {
    Throw(ErrorCode::kInvalidArgument, "slot ", options.name,
          ": its variable is that of the rows of table '", name_, "'");
  }
  options.plane.storage = CacheOf(options.storage);
  std::shared_ptr<Plane> plane = call.engine().MakePlane(options.plane);
  if (table_) {
    if (!HasCapacity()) plane->Reserve(rows_.num_rows());  // running steps may read these
    FillRowsInUse(call, *table_, options, *plane);
  }
  slots_.Put({options, PlaneVariable(std::move(variable), options.plane)});
  fingerprints_->Forget();  // they lack this slot
  const VariableLocks locks(Variables(), VariableLocks::Mode::kAlone);
  slots_.all().back().plane.Put(std::move(plane));
  ShowRows();
}

void TableResource::DetachSlot(const tf::Var* variable) {
  std::unique_lock<FairSharedMutex> lock(mutex_);
  slots_.Remove(variable);
  fingerprints_->Forget();
}

/// The earlier contents' row ids are no longer valid.
void TableResource::SetContents(std::shared_ptr<Table> table, std::unique_ptr<KeyPolicy> policy) {
  table_ = std::move(table);
  policy_ = std::move(policy);
  generations_.Replace(table_->options().use_hash_index);
  fingerprints_->Forget();
}

void TableResource::Replace(OpCall& call, const std::vector<std::string>& slot_names,
                            const Fill& fill, std::optional<SavedStream> restored) {
  std::unique_lock<FairSharedMutex> lock(mutex_);
  std::shared_ptr<Table> table;
  std::unique_ptr<KeyPolicy> policy;
  std::vector<std::shared_ptr<Plane>> planes;  // of rows_, then slots_
  std::shared_ptr<Plane> salts;
  UseView(call, View(slot_names), [&](const TableView& view) {
    TableOptions options = view.options();
    if (restored) options.first_value.stream = restored->stream;
    table = call.engine().MakeTable(options);
    policy = policy_->ForNewContents();
    TableView fresh{*table, *policy};
    fresh.places = view.places;
    fresh.has_preset = view.has_preset;
    fresh.num_rows = view.num_rows;
    fresh.variables = view.variables;
    ForEachPlane([&](const PlaneVariable& old) {
      planes.push_back(call.engine().MakePlane(old.options()));
      planes.back()->Reserve(old.plane()->num_rows());  // running steps may read the old rows
    });
    fresh.planes.rows = planes.front().get();
    if (salts_) {
      salts = call.engine().MakePlane(
          {options.capacity, 1, options.use_hash_index, Element::kBfloat16});
      salts->Reserve(rows_.plane()->num_rows());
      fresh.planes.salts = salts.get();
    }
    for (size_t i = 0; i < view.planes.slots.size(); ++i) {
      fresh.planes.slots.push_back({planes[i + 1].get(), view.planes.slots[i].initial_value});
    }
    WritePreset(call, *fresh.planes.rows, preset_);
    fill(view, fresh);
    if (fresh.has_preset) fresh.table.InsertAll(call, fresh.planes);  // those that it left out
  });
  SetContents(std::move(table), std::move(policy));
  salts_ = std::move(salts);
  num_updates_ = restored ? restored->num_updates : 0;
  was_looked_up_ = false;
  steps_->NoteRestored(table_->options().name);
  const VariableLocks locks(Variables(), VariableLocks::Mode::kAlone);
  auto plane = planes.begin();
  ForEachPlane([&](PlaneVariable& replaced) { replaced.Put(std::move(*plane++)); });
  ShowRows();
}

namespace {

/// 0, 1, 2, ...
std::vector<int64_t> FirstRows(int64_t num_rows) {
  std::vector<int64_t> row_ids(static_cast<size_t>(num_rows));
  std::iota(row_ids.begin(), row_ids.end(), int64_t{0});
  return row_ids;
}

}  // namespace

void CopyRowsTo(OpCall& call, const RowsView& rows, int64_t num_rows, float* to) {
  if (rows.element != Element::kFloat32) {
    const std::vector<int64_t> row_ids = FirstRows(num_rows);
    return call.engine().GatherRows(call, num_rows, call.OnDevice(row_ids.data(), num_rows), rows,
                                    to);
  }
  call.engine().CopyOnDevice(call, to, rows.data,
                             num_rows * rows.width * static_cast<int64_t>(sizeof(float)));
}

void CopyRowsFrom(OpCall& call, const float* from, int64_t num_rows, const RowsView& rows) {
  if (rows.element != Element::kFloat32) {
    const std::vector<int64_t> row_ids = FirstRows(num_rows);
    return call.engine().ScatterRows(call, num_rows, call.OnDevice(row_ids.data(), num_rows), from,
                                     rows);
  }
  call.engine().CopyOnDevice(call, rows.data, from,
                             num_rows * rows.width * static_cast<int64_t>(sizeof(float)));
}

}  // namespace sok
