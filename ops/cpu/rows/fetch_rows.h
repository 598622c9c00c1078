// SPDX-License-Identifier: Apache-2.0
// Before rows are touched: brings those into memory that are in a file.
#ifndef SOK_OPS_CPU_ROWS_FETCH_ROWS_H_
#define SOK_OPS_CPU_ROWS_FETCH_ROWS_H_

#include <cstdint>

#include "ops/base/memory/page_cache.h"
#include "ops/engine/rows_view.h"

namespace sok {

/// The rows `row_ids`, of which those below 0 are skipped.
inline void FetchRows(const RowsView& view, int64_t count, const int64_t* row_ids) {
  if (view.file != nullptr) view.file->Fetch(view.data, view.row_bytes(), count, row_ids);
}

/// The rows from 0 to count - 1.
inline void FetchFirstRows(const RowsView& view, int64_t count) {
  if (view.file != nullptr) view.file->FetchFirst(view.data, view.row_bytes(), count);
}

}  // namespace sok

#endif  // SOK_OPS_CPU_ROWS_FETCH_ROWS_H_
