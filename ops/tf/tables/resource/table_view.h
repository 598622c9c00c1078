// SPDX-License-Identifier: Apache-2.0
// What an op sees of a table: its index, its planes, and the variables behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/engine/table.h"
#include "ops/history/key_policy.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_var.h"

namespace sok {

/// A table and its planes for one op. Valid while the resource holds its locks.
struct TableView {
  Table& table;
  KeyPolicy& policy;
  Planes planes = {};
  std::vector<size_t> places = {};       // planes.slots[places[i]] is the slot called slot_names[i]
  bool has_preset = false;               // all rows of planes.rows have been written
  int64_t num_rows = 0;                  // rows that the variables show
  int64_t num_updates = 0;               // as SavedStream
  std::vector<tf::Var*> variables = {};  // of planes.rows, then of planes.slots
  KeyHistory* history = policy.history();  // nullptr if none is kept

  const TableOptions& options() const { return table.options(); }
  /// As KeyPolicy::Arrive.
  Evicted Arrive(Call& call, const Arrival& arrival, int64_t* row_ids) const {
    return policy.Arrive(call, table, planes, arrival, row_ids);
  }
  /// The number of rows written in one of `planes`; further rows may have no memory. Waits.
  int64_t NumWrittenRows(Call& call, const Plane& plane) const;
  /// The plane of the variable behind a handle; kFailedPrecondition if it is not one of the
  /// table's.
  Plane& PlaneOf(tf::OpKernelContext* ctx, const tf::ResourceHandle& handle) const;
  /// Whether the least recently used keys lose their rows.
  bool limits_keys() const { return policy.options().limits_keys(); }
  /// As PlaneOf; the plane must have width dim.
  RowsView RowsOf(tf::OpKernelContext* ctx, const tf::ResourceHandle& handle) const;
};

}  // namespace sok
