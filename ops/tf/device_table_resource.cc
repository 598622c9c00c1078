// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/device_table_resource.h"

#include <algorithm>
#include <utility>

#include "ops/tf/border.h"
#include "ops/tf/device_plane.h"

namespace sok {

namespace tf = tensorflow;

namespace {

/// Inserts keys into an empty table, in parts, so that little is needed beside them; returns their
/// rows.
const int64_t* Insert(DeviceCall& call, EngineTable& table, const std::vector<int64_t>& keys) {
  constexpr int64_t kPart = 1 << 20;
  const auto num_keys = static_cast<int64_t>(keys.size());
  auto* row_ids = call.Temporary<int64_t>(num_keys);
  auto* part = call.Temporary<int64_t>(std::min(num_keys, kPart));
  for (int64_t begin = 0; begin < num_keys; begin += kPart) {
    const int64_t count = std::min(kPart, num_keys - begin);
    call.CopyFromHost(part, keys.data() + begin, count);
    table.FindOrInsert(call.stream(), count, part, /*keys_are_distinct=*/true, nullptr,
                       EnginePlanes(), row_ids + begin);
  }
  return row_ids;
}

}  // namespace

int64_t DeviceView::NumWrittenRows(const DeviceCall& call, const EnginePlane& plane) const {
  if (has_preset && &plane == planes.rows) return table.options().capacity;
  return table.size(call.stream()).num_rows;
}

void DeviceTableResource::Initialize(DeviceCall& call, const TableOptions& options,
                                     tf::core::RefCountPtr<tf::Var> rows, bool keep_existing) {
  tf::mutex_lock lock(mutex_);  // nobody sees the variable and another plane
  if (keep_existing && table_) return;
  std::shared_ptr<EngineTable> table = call.engine().MakeTable(options);
  plane_ = MakeDevicePlane(call, rows.get(), options.capacity, options.dim);
  table_ = std::move(table);
  rows_ = std::move(rows);
  preset_ = tf::Tensor();
  slots_.RemoveOtherCapacities(options.capacity);
}

void DeviceTableResource::SetPreset(DeviceCall& call, const tf::Tensor& values) {
  tf::mutex_lock lock(mutex_);
  CheckInitialized();
  const TableOptions& options = table_->options();
  if (values.shape() != tf::TensorShape({options.capacity, options.dim})) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name,
          "': the initializer gave values of shape ", values.shape().DebugString(), ", expected [",
          options.capacity, ", ", options.dim, "]");
  }
  preset_ = values;
  WritePreset(call);
}

void DeviceTableResource::WritePreset(DeviceCall& call) const {
  if (preset_.dims() != 2) return;
  plane_->Reserve(table_->options().capacity);
  call.engine().CopyOnDevice(call.stream(), plane_->data(), preset_.data(),
                             static_cast<int64_t>(preset_.TotalBytes()));
}

void DeviceTableResource::AttachSlot(DeviceCall& call, const SlotOptions& options,
                                     tf::core::RefCountPtr<tf::Var> variable, bool keep_existing) {
  tf::mutex_lock lock(mutex_);
  if (keep_existing && slots_.Has(options.name, variable.get())) return;
  if (table_ && table_->options().capacity != options.capacity) {
    Throw(ErrorCode::kInvalidArgument, "slot ", options.name, " has ", options.capacity,
          " rows, but table '", name_, "' has ", table_->options().capacity);
  }
  TableSlot slot{options, std::move(variable), nullptr};
  slot.plane = MakeDevicePlane(call, slot.variable.get(), options.capacity, options.width);
  if (table_) {
    const int64_t num_rows = table_->size(call.stream()).num_rows;
    slot.plane->Reserve(num_rows);
    call.engine().Fill(call.stream(), slot.plane->data(), num_rows * options.width,
                       options.initial_value);
  }
  slots_.Put(std::move(slot));
}

void DeviceTableResource::DetachSlot(const tf::Var* variable) {
  tf::mutex_lock lock(mutex_);
  slots_.Remove(variable);
}

void DeviceTableResource::WithSlots(DeviceCall& call, const std::vector<std::string>& slot_names,
                                    const Use& use) {
  tf::tf_shared_lock lock(mutex_);
  use(View(call, slot_names));
}

void DeviceTableResource::Alone(DeviceCall& call, const std::vector<std::string>& slot_names,
                                const Use& use) {
  tf::mutex_lock lock(mutex_);
  use(View(call, slot_names));
}

void DeviceTableResource::Replace(DeviceCall& call, const std::vector<std::string>& slot_names,
                                  const Use& check, const std::vector<int64_t>& keys,
                                  const Write& write) {
  tf::mutex_lock lock(mutex_);
  const DeviceView old = View(call, slot_names);
  check(old);
  const TableOptions options = old.table.options();
  std::shared_ptr<EngineTable> table = call.engine().MakeTable(options);
  const int64_t* row_ids = Insert(call, *table, keys);
  const int64_t num_rows = table->size(call.stream()).num_rows;
  table->Reserve(call.stream(), num_rows, old.planes);
  table_ = std::move(table);
  try {
    WritePreset(call);
    for (const auto& slot : old.planes.slots) {
      call.engine().Fill(call.stream(), slot.plane->data(), num_rows * slot.plane->width(),
                         slot.initial_value);
    }
    write({*table_, old.planes, old.places, old.has_preset, old.variables}, row_ids);
  } catch (...) {
    table_ = call.engine().MakeTable(options);  // no key finds a row that was not written
    throw;
  }
}

void DeviceTableResource::CheckInitialized() const {
  if (!table_) ThrowNotInitialized(name_);
}

DeviceView DeviceTableResource::View(DeviceCall& call, const std::vector<std::string>& slot_names) {
  CheckInitialized();
  const int64_t capacity = table_->options().capacity;
  DeviceView view{*table_, {}, slots_.PlacesOf(slot_names, name_), preset_.dims() == 2, {}};
  view.planes.rows = plane_.get();
  view.variables.push_back(rows_.get());
  for (const TableSlot& slot : slots_.all()) {
    view.variables.push_back(slot.variable.get());
    view.planes.slots.push_back({slot.plane.get(), slot.options.initial_value});
  }
  const auto keep = [&](tf::Var* variable, const std::shared_ptr<EnginePlane>& plane) {
    KeepInPlane(call, variable, plane, capacity, [&] { return view.NumWrittenRows(call, *plane); });
  };
  keep(rows_.get(), plane_);
  for (const TableSlot& slot : slots_.all()) keep(slot.variable.get(), slot.plane);
  return view;
}

std::string DeviceTableResource::DebugString() const { return "table on a GPU: " + name_; }

tf::core::RefCountPtr<DeviceTableResource> LookupOrMakeDeviceTable(tf::OpKernelContext* ctx,
                                                                   int index) {
  tf::core::RefCountPtr<DeviceTableResource> table;
  const tf::ResourceHandle& handle = tf::HandleFromInput(ctx, index);
  ThrowIfError(tf::LookupOrCreateResource<DeviceTableResource>(
      ctx, handle, &table, [&handle](DeviceTableResource** made) {
        *made = new DeviceTableResource(handle.name());
        return absl::OkStatus();
      }));
  return table;
}

tf::core::RefCountPtr<DeviceTableResource> LookupDeviceTable(tf::OpKernelContext* ctx, int index) {
  tf::core::RefCountPtr<DeviceTableResource> table;
  const tf::ResourceHandle& handle = tf::HandleFromInput(ctx, index);
  if (!tf::LookupResource(ctx, handle, &table).ok()) ThrowNotInitialized(handle.name());
  return table;
}

}  // namespace sok
