// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/rows/gather_rows.h"

#include "ops/cpu/rows/fetch_rows.h"
#include "ops/cpu/rows/fixed_dim.h"
#include "ops/cpu/rows/row_numbers.h"
#include "ops/engine/row_sum.h"

namespace sok {
namespace {

int64_t GatherCost(int64_t dim) { return 12 + dim / 8; }

template <typename Number, typename Dim>
SOK_WIDE_VECTORS void GatherRange(const Number* rows, Dim dim, int64_t begin, int64_t end,
                                  const int64_t* row_ids, float* out) {
  const int64_t size = dim;
  const int64_t ahead = PrefetchDistance(NumLines<Number>(size));
  for (int64_t i = begin; i < end; ++i) {
    // Prefetching a negative row id is harmless: invalid addresses are ignored.
    if (i + ahead < end) PrefetchRow(rows + row_ids[i + ahead] * size, size);
    if (row_ids[i] >= 0) LoadRow(rows + row_ids[i] * size, dim, out + i * size);
  }
}

template <typename Number>
SOK_WIDE_VECTORS void ScatterRange(Number* plane, int64_t dim, int64_t begin, int64_t end,
                                   const int64_t* row_ids, const float* rows) {
  for (int64_t i = begin; i < end; ++i) {
    if (row_ids[i] >= 0) StoreRow(rows + i * dim, dim, plane + row_ids[i] * dim);
  }
}

}  // namespace

void GatherRows(Executor& executor, int64_t num_rows, const int64_t* row_ids, const RowsView& plane,
                float* out) {
  FetchRows(plane, num_rows, row_ids, RowUse::kRead);
  executor.ParallelFor(num_rows, GatherCost(plane.width), [&](int64_t begin, int64_t end) {
    WithRows(plane, [&](const auto* rows, auto fixed_dim) {
      GatherRange(rows, fixed_dim, begin, end, row_ids, out);
    });
  });
}

void ScatterRows(Executor& executor, int64_t num_rows, const int64_t* row_ids, const float* rows,
                 const RowsView& plane) {
  FetchRows(plane, num_rows, row_ids, RowUse::kWrite);
  const int64_t dim = plane.width;
  executor.ParallelFor(num_rows, GatherCost(dim), [&](int64_t begin, int64_t end) {
    WithElement(plane, [&](auto* to) { ScatterRange(to, dim, begin, end, row_ids, rows); });
  });
}

void AddToRows(int64_t num_rows, const int64_t* row_ids, const float* values,
               const RowsView& plane) {
  const int64_t dim = plane.width;
  float* const rows = FloatsOf(plane);
  FetchRows(plane, num_rows, row_ids, RowUse::kWrite);
  for (int64_t i = 0; i < num_rows; ++i) {
    float* row = rows + row_ids[i] * dim;
    for (int64_t column = 0; column < dim; ++column) row[column] += values[i * dim + column];
  }
}

void AssignRows(int64_t num_rows, const int64_t* row_ids, const float* rows,
                const RowsView& plane) {
  ScatterRows(SerialExecutor(), num_rows, row_ids, rows, plane);
}

void SumRows(Executor& executor, int64_t num_rows, const RowsView& view, uint64_t* sums) {
  FetchRows(view, num_rows, nullptr, RowUse::kRead);
  executor.ParallelFor(num_rows, 2 + view.width / 4, [&](int64_t begin, int64_t end) {
    WithRows(view, [&](const auto* rows, auto fixed_width) {
      const int64_t size = fixed_width;
      for (int64_t i = begin; i < end; ++i) sums[i] = RowSum(sums[i], rows + i * size, size);
    });
  });
}

void GatherRows(Call& call, Table& table, int64_t num_keys, const int64_t* keys, const Plane& rows,
                float* out) {
  const TableOptions& options = table.options();
  auto* row_ids = call.Temporary<int64_t>(num_keys);
  table.Find(call, num_keys, keys, row_ids);
  GatherRows(call.executor(), num_keys, row_ids, rows.data(), out);
  FillAbsentRows(call.executor(), num_keys, options.dim, options.first_value, keys, row_ids, out);
}

void FillAbsentRows(Executor& executor, int64_t num_keys, int64_t dim,
                    const FirstValue& first_value, const int64_t* keys, const int64_t* row_ids,
                    float* out) {
  if (first_value.kind == FirstValue::Kind::kPreset) return;
  constexpr int64_t kGroup = 256;  // rows at a time: they share draws of random numbers
  executor.ParallelFor(num_keys, dim * kFirstValueColumnNanoseconds,
                       [&](int64_t begin, int64_t end) {
                         int64_t absent_keys[kGroup];
                         int64_t places[kGroup];
                         int64_t count = 0;
                         for (int64_t i = begin; i < end; ++i) {
                           if (row_ids[i] < 0) {
                             absent_keys[count] = keys[i];
                             places[count++] = i;
                           }
                           if (count == kGroup || (i + 1 == end && count > 0)) {
                             WriteFirstValues(first_value, count, absent_keys, places, dim, out);
                             count = 0;
                           }
                         }
                       });
}

}  // namespace sok
