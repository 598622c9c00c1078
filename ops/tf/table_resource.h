// SPDX-License-Identifier: Apache-2.0
// A table as a TensorFlow resource: the index, and which variables hold its planes.
#ifndef SOK_OPS_TF_TABLE_RESOURCE_H_
#define SOK_OPS_TF_TABLE_RESOURCE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/table/table.h"
#include "ops/tf/plane_variable.h"
#include "ops/tf/table_slots.h"

namespace sok {

/// Huge pages where rows fill in order; where they are touched here and there, each would commit
/// 2 MiB for one row.
inline PageSize PageSizeFor(bool rows_fill_in_order) {
  return rows_fill_in_order ? PageSize::kHuge : PageSize::kSmall;
}

class TableResource : public tensorflow::ResourceBase {
 public:
  explicit TableResource(std::string name) : name_(std::move(name)) {}

  /// Makes the table anew, empty, with its rows in `rows`. Slots that were attached stay attached.
  /// With `keep_existing`, a table that is there stays as it is.
  void Initialize(const TableOptions& options, tensorflow::core::RefCountPtr<tensorflow::Var> rows,
                  bool keep_existing);

  /// Makes `variable` a plane that holds the initial value for every row there is and every row
  /// that will come. May run before Initialize. Takes the place of an earlier slot of the same
  /// name; with `keep_existing`, that one stays if it has the same variable.
  void AttachSlot(const SlotOptions& options,
                  tensorflow::core::RefCountPtr<tensorflow::Var> variable, bool keep_existing);

  /// Forgets the slot that AttachSlot was given `variable` for, if there is one.
  void DetachSlot(const tensorflow::Var* variable);

  /// Makes `values` [capacity, dim] what the rows hold before their keys come.
  void SetPreset(const tensorflow::Tensor& values);

  /// The table; kFailedPrecondition when Initialize has not run. Shared, so that a running step
  /// outlives a new Initialize.
  std::shared_ptr<Table> table() const;

  /// Calls use(table, planes) with the planes locked; errors as table().
  void WithPlanes(const std::function<void(Table& table, const RowPlanes& planes)>& use) const;

  /// As above, but planes.slots[places[i]] is the slot called slot_names[i]. kFailedPrecondition
  /// when there is no such slot.
  using UseOfSlots = std::function<void(const Table& table, const RowPlanes& planes,
                                        const std::vector<size_t>& places)>;
  void WithSlots(const std::vector<std::string>& slot_names, const UseOfSlots& use) const;

  /// Puts what `make` returns in the place of the table. Nobody else uses the table meanwhile. When
  /// `make` throws, the table stays.
  using MakeTable = std::function<std::shared_ptr<Table>(
      const Table& table, const RowPlanes& planes, const std::vector<size_t>& places)>;
  void Replace(const std::vector<std::string>& slot_names, const MakeTable& make);

  /// Makes rows that no key has hold what was preset, if anything was.
  void WritePreset(float* rows) const;

  /// Forgets every key, for a `use` of WithPlanes; rows hold what was preset again.
  void Clear(Table& table, const RowPlanes& planes) const;

  std::string DebugString() const override;

 private:
  // These need mutex_.
  std::vector<tensorflow::Var*> Variables() const;
  RowPlanes Planes() const;  // and the variables locked

  const std::string name_;
  mutable tensorflow::mutex mutex_;
  std::shared_ptr<Table> table_;
  tensorflow::core::RefCountPtr<tensorflow::Var> rows_;
  tensorflow::Tensor preset_;  // [capacity, dim], or a scalar: none
  TableSlots slots_;
};

/// The table behind input `index`; made, without Initialize, when it does not exist yet.
tensorflow::core::RefCountPtr<TableResource> LookupOrMakeTable(tensorflow::OpKernelContext* ctx,
                                                               int index);

/// The table behind input `index`; kFailedPrecondition, saying what to run, when it does not exist.
tensorflow::core::RefCountPtr<TableResource> LookupTable(tensorflow::OpKernelContext* ctx,
                                                         int index);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLE_RESOURCE_H_
