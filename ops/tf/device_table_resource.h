// SPDX-License-Identifier: Apache-2.0
// A table on a GPU as a TensorFlow resource: the index, and which variables hold its planes.
#ifndef SOK_OPS_TF_DEVICE_TABLE_RESOURCE_H_
#define SOK_OPS_TF_DEVICE_TABLE_RESOURCE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/device_call.h"
#include "ops/tf/table_slots.h"

namespace sok {

/// A table and its planes, for one call. Valid while the resource holds its lock.
struct DeviceView {
  EngineTable& table;
  EnginePlanes planes;
  std::vector<size_t> places;  // planes.slots[places[i]] is the slot called slot_names[i]
  bool has_preset;             // all rows of planes.rows have been written
  std::vector<const tensorflow::Var*> variables;  // of planes.rows, then of planes.slots

  /// Rows that have been written in one of `planes`, the others may have no memory. Waits.
  int64_t NumWrittenRows(const DeviceCall& call, const EnginePlane& plane) const;
};

/// As TableResource. Variables are [capacity, width] in the address space of the GPU, and have
/// memory for rows in use only: an op that reads or writes a whole one must be one of this library.
class DeviceTableResource : public tensorflow::ResourceBase {
 public:
  explicit DeviceTableResource(std::string name) : name_(std::move(name)) {}

  void Initialize(DeviceCall& call, const TableOptions& options,
                  tensorflow::core::RefCountPtr<tensorflow::Var> rows, bool keep_existing);
  void AttachSlot(DeviceCall& call, const SlotOptions& options,
                  tensorflow::core::RefCountPtr<tensorflow::Var> variable, bool keep_existing);
  void DetachSlot(const tensorflow::Var* variable);
  /// `values` [capacity, dim] is on the device.
  void SetPreset(DeviceCall& call, const tensorflow::Tensor& values);

  /// Calls use(view); kFailedPrecondition when Initialize has not run, or there is no such slot.
  using Use = std::function<void(const DeviceView& view)>;
  void WithPlanes(DeviceCall& call, const Use& use) { WithSlots(call, {}, use); }
  void WithSlots(DeviceCall& call, const std::vector<std::string>& slot_names, const Use& use);

  /// As WithSlots, while nobody else uses the table.
  void Alone(DeviceCall& call, const std::vector<std::string>& slot_names, const Use& use);

  /// Makes the table hold exactly `keys`, distinct; calls write(view, row_ids), which fills their
  /// rows and slots. row_ids[i], on the device, is the row of keys[i]. When something fails before,
  /// `check` for one, the table stays as it was; when `write` fails, it is empty.
  using Write = std::function<void(const DeviceView& view, const int64_t* row_ids)>;
  void Replace(DeviceCall& call, const std::vector<std::string>& slot_names, const Use& check,
               const std::vector<int64_t>& keys, const Write& write);

  std::string DebugString() const override;

 private:
  // These need mutex_.
  DeviceView View(DeviceCall& call, const std::vector<std::string>& slot_names);
  void CheckInitialized() const;
  void WritePreset(DeviceCall& call) const;

  const std::string name_;
  tensorflow::mutex mutex_;
  std::shared_ptr<EngineTable> table_;
  std::shared_ptr<EnginePlane> plane_;
  tensorflow::core::RefCountPtr<tensorflow::Var> rows_;
  tensorflow::Tensor preset_;  // [capacity, dim], or a scalar: none
  TableSlots slots_;
};

/// As LookupOrMakeTable and LookupTable.
tensorflow::core::RefCountPtr<DeviceTableResource> LookupOrMakeDeviceTable(
    tensorflow::OpKernelContext* ctx, int index);
tensorflow::core::RefCountPtr<DeviceTableResource> LookupDeviceTable(
    tensorflow::OpKernelContext* ctx, int index);

}  // namespace sok

#endif  // SOK_OPS_TF_DEVICE_TABLE_RESOURCE_H_
