// SPDX-License-Identifier: Apache-2.0
// The tables of this process, for figures of all of them that need no session.
#ifndef SOK_OPS_TF_TABLES_RESOURCE_LIVE_TABLES_H_
#define SOK_OPS_TF_TABLES_RESOURCE_LIVE_TABLES_H_

namespace sok {

class TableResource;

/// Called once a table has been made; it is forgotten when it is gone.
void NoteLiveTable(TableResource* table);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_RESOURCE_LIVE_TABLES_H_
