// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/table_history.h"

#include "ops/tf/base/border.h"

namespace sok {

KeyHistory& HistoryOf(const TableView& view) {
  if (view.history != nullptr) return *view.history;
  Throw(ErrorCode::kFailedPrecondition, "table '", view.options().name,
        "' keeps no history of its keys: create it with a filter, eviction or a history");
}

void FindOnHost(OpCall& call, Table& table, int64_t num_keys, const int64_t* keys,
                int64_t* row_ids) {
  const bool is_host = call.engine().IsHostMemory();
  int64_t* found = is_host ? row_ids : call.Temporary<int64_t>(num_keys);
  table.Find(call, num_keys, call.OnDevice(keys, num_keys), found);
  call.CopyToHost(row_ids, found, num_keys);
}

}  // namespace sok
