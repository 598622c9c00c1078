// SPDX-License-Identifier: Apache-2.0
// Reads and writes rows by row id. No bags.
#pragma once

#include <cstdint>

#include "ops/base/threads/executor.h"
#include "ops/engine/first_value.h"
#include "ops/engine/table.h"

namespace sok {

/// As Engine::GatherRows.
void GatherRows(Executor& executor, int64_t num_rows,
                const int64_t* row_ids,  // [num_rows]
                const RowsView& plane,
                float* out);  // [num_rows, plane.width]

/// As Table::GatherRows.
void GatherRows(Call& call, Table& table, int64_t num_keys,
                const int64_t* keys,  // [num_keys]
                const Plane& rows,
                float* out);  // [num_keys, dim]

/// As Engine::ScatterRows.
void ScatterRows(Executor& executor, int64_t num_rows,
                 const int64_t* row_ids,  // [num_rows]
                 const float* rows,       // [num_rows, plane.width]
                 const RowsView& plane);

/// As Engine::AddToRows and Engine::AssignRows, in the order of `row_ids`.
void AddToRows(int64_t num_rows, const int64_t* row_ids, const float* values,
               const RowsView& plane);
void AssignRows(int64_t num_rows, const int64_t* row_ids, const float* rows, const RowsView& plane);

/// As Engine::SumRows, of the first rows.
void SumRows(Executor& executor, int64_t num_rows, const RowsView& rows,
             uint64_t* sums);  // [num_rows]

/// As Engine::FillAbsentRows.
void FillAbsentRows(Executor& executor, int64_t num_keys, int64_t dim,
                    const FirstValue& first_value,
                    const int64_t* keys,     // [num_keys]
                    const int64_t* row_ids,  // [num_keys]
                    float* out);             // [num_keys, dim]

}  // namespace sok
