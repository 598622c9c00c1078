// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/table_resource.h"

#include <algorithm>
#include <utility>

#include "ops/tf/border.h"

namespace sok {

namespace tf = tensorflow;

void TableResource::Initialize(const TableOptions& options, tf::core::RefCountPtr<tf::Var> rows,
                               bool keep_existing) {
  {
    tf::tf_shared_lock lock(mutex_);
    if (keep_existing && table_) return;
  }
  std::shared_ptr<Table> table = Table::Create(Device::kCpu, options);
  MakePlane(rows.get(), options.capacity, options.dim, PageSizeFor(options.use_hash_index));
  tf::mutex_lock lock(mutex_);
  table_ = std::move(table);
  rows_ = std::move(rows);
  preset_ = tf::Tensor();
  slots_.RemoveOtherCapacities(options.capacity);
}

void TableResource::SetPreset(const tf::Tensor& values) {
  tf::mutex_lock lock(mutex_);
  if (!table_) ThrowNotInitialized(name_);
  const TableOptions& options = table_->options();
  if (values.shape() != tf::TensorShape({options.capacity, options.dim})) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name,
          "': the initializer gave values of shape ", values.shape().DebugString(), ", expected [",
          options.capacity, ", ", options.dim, "]");
  }
  preset_ = values;
  SharedLocks locks({rows_.get()});
  WritePreset(PlaneData(rows_.get(), options.capacity, options.dim));
}

void TableResource::Clear(Table& table, const RowPlanes& planes) const {
  table.Clear();
  WritePreset(planes.rows);
}

void TableResource::WritePreset(float* rows) const {
  if (preset_.dims() == 2) std::copy_n(Data<float>(preset_), preset_.NumElements(), rows);
}

void TableResource::AttachSlot(const SlotOptions& options, tf::core::RefCountPtr<tf::Var> variable,
                               bool keep_existing) {
  if (keep_existing) {
    tf::tf_shared_lock lock(mutex_);
    if (slots_.Has(options.name, variable.get())) return;
  }
  MakePlane(variable.get(), options.capacity, options.width,
            PageSizeFor(options.rows_fill_in_order));
  tf::mutex_lock lock(mutex_);
  if (table_ && table_->options().capacity != options.capacity) {
    Throw(ErrorCode::kInvalidArgument, "slot ", options.name, " has ", options.capacity,
          " rows, but table '", name_, "' has ", table_->options().capacity);
  }
  if (table_ && options.initial_value != 0.0f) {
    SharedLocks locks({variable.get()});
    float* slot = PlaneData(variable.get(), options.capacity, options.width);
    for (const int64_t row : table_->Export().row_ids) {
      std::fill_n(slot + row * options.width, options.width, options.initial_value);
    }
  }
  slots_.Put({options, std::move(variable), nullptr});
}

std::shared_ptr<Table> TableResource::table() const {
  tf::tf_shared_lock lock(mutex_);
  if (!table_) ThrowNotInitialized(name_);
  return table_;
}

void TableResource::DetachSlot(const tf::Var* variable) {
  tf::mutex_lock lock(mutex_);
  slots_.Remove(variable);
}

void TableResource::WithPlanes(
    const std::function<void(Table& table, const RowPlanes& planes)>& use) const {
  tf::tf_shared_lock lock(mutex_);
  if (!table_) ThrowNotInitialized(name_);
  SharedLocks locks(Variables());
  use(*table_, Planes());
}

void TableResource::WithSlots(const std::vector<std::string>& slot_names,
                              const UseOfSlots& use) const {
  tf::tf_shared_lock lock(mutex_);
  if (!table_) ThrowNotInitialized(name_);
  SharedLocks locks(Variables());
  use(*table_, Planes(), slots_.PlacesOf(slot_names, name_));
}

void TableResource::Replace(const std::vector<std::string>& slot_names, const MakeTable& make) {
  tf::mutex_lock lock(mutex_);
  if (!table_) ThrowNotInitialized(name_);
  SharedLocks locks(Variables());
  table_ = make(*table_, Planes(), slots_.PlacesOf(slot_names, name_));
}

std::vector<tf::Var*> TableResource::Variables() const {
  std::vector<tf::Var*> variables = {rows_.get()};
  for (const TableSlot& slot : slots_.all()) variables.push_back(slot.variable.get());
  return variables;
}

RowPlanes TableResource::Planes() const {
  const TableOptions& options = table_->options();
  RowPlanes planes;
  planes.rows = PlaneData(rows_.get(), options.capacity, options.dim);
  for (const TableSlot& slot : slots_.all()) {
    planes.slots.push_back(
        {PlaneData(slot.variable.get(), slot.options.capacity, slot.options.width),
         slot.options.width, slot.options.initial_value});
  }
  return planes;
}

std::string TableResource::DebugString() const {
  tf::tf_shared_lock lock(mutex_);
  return (table_ ? "table " : "table without a value: ") + name_;
}

tf::core::RefCountPtr<TableResource> LookupOrMakeTable(tf::OpKernelContext* ctx, int index) {
  tf::core::RefCountPtr<TableResource> table;
  const tf::ResourceHandle& handle = tf::HandleFromInput(ctx, index);
  ThrowIfError(tf::LookupOrCreateResource<TableResource>(ctx, handle, &table,
                                                         [&handle](TableResource** made) {
                                                           *made = new TableResource(handle.name());
                                                           return absl::OkStatus();
                                                         }));
  return table;
}

tf::core::RefCountPtr<TableResource> LookupTable(tf::OpKernelContext* ctx, int index) {
  tf::core::RefCountPtr<TableResource> table;
  const tf::ResourceHandle& handle = tf::HandleFromInput(ctx, index);
  if (!tf::LookupResource(ctx, handle, &table).ok()) ThrowNotInitialized(handle.name());
  return table;
}

}  // namespace sok
