// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/resource/planes_of_group.h"

#include <functional>
#include <map>

namespace sok {

PlanesOfGroup::PlanesOfGroup(tf::OpKernelContext* ctx, OpCall& call, const Group& group,
                             const char* list) {
  std::map<TableResource*, const TableView*, std::less<>> by_table;  // in locking order
  for (int item = 0; item < group.size(); ++item) {
    tables_.push_back(LookupTable(ctx, group.Handle(list, item)));
    by_table.emplace(tables_.back().get(), nullptr);
  }
  for (auto& [table, view] : by_table) {
    locked_.push_back(table->LockPlanes(call));
    view = &locked_.back()->view();
  }
  for (const auto& table : tables_) views_.push_back(by_table.at(table.get()));
}

}  // namespace sok
