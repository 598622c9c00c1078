// SPDX-License-Identifier: Apache-2.0
// The tables of this process, for figures of all of them that need no session.
#pragma once

namespace sok {

class TableResource;

/// Called once a table has been made; it is forgotten when it is gone.
void NoteLiveTable(TableResource* table);

}  // namespace sok
