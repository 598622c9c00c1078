// SPDX-License-Identifier: Apache-2.0
// Updates of rows by row ids that may repeat. No table.
#pragma once

#include <cstdint>

#include "ops/base/threads/atomics.h"
#include "ops/device/kernels/apply_rule.h"
#include "ops/device/kernels/distinct.h"
#include "ops/device/kernels/merging.h"
#include "ops/device/kernels/row_kernels.h"

namespace sok {

/// last[d] = ~(the last position of distinct row id d); initially all ones.
struct FindLast {
  const int32_t* inverse;
  uint32_t* last;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    AtomicMin(last + inverse[i], ~static_cast<uint32_t>(i));
  }
};

struct FlipBits {
  uint32_t* words;

  SOK_HOST_DEVICE void operator()(int64_t i) const { words[i] = ~words[i]; }
};

struct DistinctRows {
  Count count;
  const int64_t* row_ids;  // [count]
  const int32_t* inverse;  // of the batch
};

/// In scratch memory.
template <typename Queue>
DistinctRows FindDistinctRows(Queue& queue, Scratch<Queue>& scratch, int64_t num_rows,
                              const int64_t* row_ids) {
  auto* distinct = scratch.template Take<int64_t>(num_rows);
  auto* inverse = scratch.template Take<int32_t>(num_rows);
  const int32_t* count =
      DistinctKeys(queue, scratch, num_rows, row_ids, distinct, nullptr, inverse);
  return {Count(num_rows, count), distinct, inverse};
}

/// As Engine::AddToRows, on a queue: adds up the values for one row first.
template <typename Queue>
void AddToRows(Queue& queue, Scratch<Queue>& scratch, int64_t num_rows,
               const int64_t* row_ids,  // [num_rows]
               const float* values,     // [num_rows, plane.width]
               const RowsView& plane) {
  FloatsOf(plane);  // throws if they are not
  if (num_rows == 0) return;
  const DistinctRows distinct = FindDistinctRows(queue, scratch, num_rows, row_ids);
  Bags bags;
  bags.num_keys = num_rows;
  bags.num_distinct = num_rows;  // a bound
  bags.inverse = distinct.inverse;
  bags.num_bags = num_rows;
  auto* sums = scratch.template Take<float>(num_rows * plane.width);
  MergeGradients(queue, scratch, bags, plane.width, values, sums);
  RulePlanes planes;
  planes.rows = plane;
  SgdRule add;
  add.learning_rate = -1.0f;
  ApplyToRows(queue, add, planes, INT64_MAX, distinct.count, distinct.row_ids, sums);
}

/// As Engine::AssignRows, on a queue.
template <typename Queue, typename Number>
void AssignRows(Queue& queue, Scratch<Queue>& scratch, int64_t num_rows, int64_t dim,
                const int64_t* row_ids,  // [num_rows]
                const float* rows,       // [num_rows, dim]
                Number* plane) {         // [rows, dim]
  if (num_rows == 0) return;
  const DistinctRows distinct = FindDistinctRows(queue, scratch, num_rows, row_ids);
  auto* last = scratch.template Take<uint32_t>(num_rows);
  queue.FillBytes(last, 0xff, num_rows * static_cast<int64_t>(sizeof(uint32_t)));
  queue.ForEach(num_rows, FindLast{distinct.inverse, last});
  queue.ForEach(distinct.count, FlipBits{last});
  const auto* sources = reinterpret_cast<const int32_t*>(last);
  ForEachPack(queue, distinct.count, dim, {rows, plane}, [&](auto pack, auto grid) {
    return CopyGivenRows<decltype(pack), Number>{grid, dim, distinct.row_ids, sources, rows, plane};
  });
}

}  // namespace sok
