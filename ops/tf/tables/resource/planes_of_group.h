// SPDX-License-Identifier: Apache-2.0
// The tables of a group of lookups, all locked for one op.
#pragma once

#include <memory>
#include <vector>

#include "ops/tf/base/group.h"
#include "ops/tf/tables/resource/table_resource.h"

namespace sok {

/// Locks as TableResource::WithPlanes for each item's table while it lives, so that threads can
/// work on items concurrently without locks. Ops lock tables in one order, each table once.
class PlanesOfGroup {
 public:
  /// `list`: the input with the tables' handles.
  PlanesOfGroup(tf::OpKernelContext* ctx, OpCall& call, const Group& group, const char* list);

  TableResource& table(int item) const { return *tables_[static_cast<size_t>(item)]; }
  const TableView& view(int item) const { return *views_[static_cast<size_t>(item)]; }

 private:
  std::vector<tf::core::RefCountPtr<TableResource>> tables_;  // [number of items]
  std::vector<std::unique_ptr<LockedPlanes>> locked_;         // one per table
  std::vector<const TableView*> views_;                       // [number of items]
};

}  // namespace sok
