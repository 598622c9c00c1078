// SPDX-License-Identifier: Apache-2.0
// A table and the history of its keys, in the host's memory.
#ifndef SOK_OPS_TF_TABLES_TABLE_HISTORY_H_
#define SOK_OPS_TF_TABLES_TABLE_HISTORY_H_

#include <cstdint>

#include "ops/tf/tables/table_resource.h"

namespace sok {

/// Throws kFailedPrecondition if the table keeps none.
KeyHistory& HistoryOf(const TableView& view);

/// Table::Find for arrays on the host.
void FindOnHost(OpCall& call, Table& table, int64_t num_keys, const int64_t* keys,
                int64_t* row_ids);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_TABLE_HISTORY_H_
