// SPDX-License-Identifier: Apache-2.0
// Optimizer rules on rows and their states by row id, each fused into one pass. No table.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/device/memory/count.h"
#include "ops/device/memory/float_pack.h"
#include "ops/engine/rules.h"

namespace sok {

/// Calls update(i, value, states) for the i-th value of one pack of a row and its states.
template <typename Number, typename Pack, typename OneRule, typename Update>
SOK_HOST_DEVICE void UpdatePack(const RulePlanes& planes, int64_t row_id, int64_t column,
                                const Update& update) {
  constexpr int kStates = kValueStates<OneRule>;
  constexpr int kLoadedStates = kStates == 0 ? 1 : kStates;
  const auto state = [&](int s) {
    return planes.states[s].template As<float>() + row_id * planes.states[s].width + column;
  };
  Number* row = planes.rows.template As<Number>() + row_id * planes.dim() + column;
  RowDraws draws(0, false);  // drawn first, in few registers
  if constexpr (sizeof(Number) != sizeof(float)) draws = planes.rounding.OfRow(row_id, column);
  Pack states[kLoadedStates];
  SOK_UNROLL
  for (int s = 0; s < kStates; ++s) states[s] = LoadPack<Pack>(state(s));
  Pack values = LoadPack<Pack>(row);
  SOK_UNROLL
  for (int i = 0; i < Pack::width; ++i) {
    float value_states[kLoadedStates];
    SOK_UNROLL
    for (int s = 0; s < kStates; ++s) value_states[s] = states[s].at[i];
    update(i, values.at[i], value_states);
    SOK_UNROLL
    for (int s = 0; s < kStates; ++s) states[s].at[i] = value_states[s];
  }
  SOK_UNROLL
  for (int s = 0; s < kStates; ++s) StorePack(state(s), states[s]);
  StorePack(row, values, [&](int i) { return draws.At(static_cast<uint32_t>(i)); });
}

/// Updates all values of a row; gradient(column) is that of a value.
template <typename Number, typename OneRule, typename Gradient>
SOK_HOST_DEVICE void UpdateWholeRow(const RulePlanes& planes, const OneRule& rule, int64_t row_id,
                                    const Gradient& gradient) {
  const auto* row = planes.rows.template As<const Number>() + row_id * planes.dim();
  const auto state = [&](int s) {
    return planes.states[s].template As<float>() + row_id * planes.states[s].width;
  };
  const float measure = MeasureRow(rule, planes.dim(), state(0), [&](int64_t column) {
    float states[kMaxStates] = {};
    for (int s = 0; s < kValueStates<OneRule>; ++s) states[s] = state(s)[column];
    return rule.Measure(gradient(column), Widened(row[column]), states);
  });
  SOK_NOT_UNROLLED
  for (int64_t column = 0; column < planes.dim(); ++column) {
    UpdatePack<Number, FloatPack<1>, OneRule>(
        planes, row_id, column,
        [&](int, float& value, float* states) { rule(gradient(column), value, states, measure); });
  }
}

template <typename Number, typename Pack, typename OneRule>
struct UpdateRows {
  PackGrid<Pack> grid;
  OneRule rule;
  RulePlanes planes;
  Count num_rows;
  const int64_t* row_ids;
  const float* gradients;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    const int64_t row_id = row_ids[place.row];
    // As unsigned, a negative id is larger than any row: one comparison saves registers.
    if (static_cast<uint64_t>(row_id) >= static_cast<uint64_t>(num_rows.value())) return;
    const Pack gradient = LoadPack<Pack>(gradients + place.row * planes.dim() + place.column);
    UpdatePack<Number, Pack, OneRule>(
        planes, row_id, place.column,
        [&](int column, float& value, float* states) { rule(gradient.at[column], value, states); });
  }
};

/// As UpdateRows, for a rule that measures rows: a thread updates a whole row.
template <typename Number, typename OneRule>
struct UpdateWholeRows {
  OneRule rule;
  RulePlanes planes;
  Count num_rows;
  const int64_t* row_ids;
  const float* gradients;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row_id = row_ids[i];
    if (static_cast<uint64_t>(row_id) >= static_cast<uint64_t>(num_rows.value())) return;
    const float* gradient = gradients + i * planes.dim();
    UpdateWholeRow<Number>(planes, rule, row_id, [&](int64_t column) { return gradient[column]; });
  }
};

/// For rows in use that have no gradient in this step.
template <typename Number, typename Pack, typename OneRule>
struct MoveOtherRows {
  PackGrid<Pack> grid;
  OneRule rule;
  RulePlanes planes;
  const unsigned char* has_gradient;  // [num_rows]
  const uint32_t* in_use;             // one bit for each row in use; nullptr: all rows are

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    if (has_gradient[place.row]) return;
    if (in_use != nullptr && ((in_use[place.row / kTile] >> (place.row % kTile)) & 1u) == 0) return;
    UpdatePack<Number, Pack, OneRule>(
        planes, place.row, place.column,
        [&](int, float& value, float* states) { ApplyWithoutGradient(rule, value, states, 0.0f); });
  }
};

/// As MoveOtherRows, for a rule that measures rows.
template <typename Number, typename OneRule>
struct MoveOtherWholeRows {
  OneRule rule;
  RulePlanes planes;
  const unsigned char* has_gradient;  // [num_rows]
  const uint32_t* in_use;             // as of MoveOtherRows

  SOK_HOST_DEVICE void operator()(int64_t row) const {
    if (has_gradient[row]) return;
    if (in_use != nullptr && ((in_use[row / kTile] >> (row % kTile)) & 1u) == 0) return;
    UpdateWholeRow<Number>(planes, rule, row, [](int64_t) { return 0.0f; });
  }
};

struct MarkRows {
  const int64_t* row_ids;
  int64_t num_marks;
  unsigned char* marks;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    if (row_ids[i] >= 0 && row_ids[i] < num_marks) marks[row_ids[i]] = 1;
  }
};

/// ForEachPack over the rows of `planes` and their states.
template <typename Queue, typename MakeKernel>
void ForEachPackOf(Queue& queue, Count num_rows, const RulePlanes& planes, const float* gradients,
                   const MakeKernel& make_kernel) {
  // For states, tests the first two rows: the others have the same alignments.
  const auto state = [&](int s, int64_t row) {
    const RowsView& view = planes.states[s];
    return view.data == nullptr ? nullptr : view.From(row).As<float>();
  };
  static_assert(kMaxStates == 2, "lists all states");
  ForEachPack(queue, num_rows, planes.dim(),
              {planes.rows.data, gradients, state(0, 0), state(1, 0), state(0, 1), state(1, 1)},
              make_kernel);
}

/// As Table::ApplyToRows, on a queue, for the rows below num_rows.
template <typename Queue, typename OneRule>
void ApplyToRows(Queue& queue, const OneRule& rule, const RulePlanes& planes, Count num_rows,
                 Count num_gradients,
                 const int64_t* row_ids,    // [num_gradients]
                 const float* gradients) {  // [num_gradients, dim]
  WithElement(planes.rows, [&](auto* rows) {
    using Number = std::remove_pointer_t<decltype(rows)>;
    if constexpr (kMeasuresRows<OneRule>) {
      queue.ForEach(num_gradients,
                    UpdateWholeRows<Number, OneRule>{rule, planes, num_rows, row_ids, gradients});
    } else {
      ForEachPackOf(queue, num_gradients, planes, gradients, [&](auto pack, auto grid) {
        return UpdateRows<Number, decltype(pack), OneRule>{grid,     rule,    planes,
                                                           num_rows, row_ids, gradients};
      });
    }
  });
}

/// As Table::ApplyToRowsInUse, on a queue, for all rows below num_rows. Rows of erased keys are
/// updated, too; nobody sees it, as a row is reset when it is reused. With `in_use`, one bit per
/// row, rows without their bit stay unchanged.
template <typename Queue, typename OneRule>
void ApplyToAllRows(Queue& queue, const OneRule& rule, const RulePlanes& planes, Count num_rows,
                    Count num_gradients,
                    const int64_t* row_ids,       // [num_gradients], distinct
                    const float* gradients,       // [num_gradients, dim]
                    unsigned char* has_gradient,  // [num_rows], scratch memory
                    const uint32_t* in_use = nullptr) {
  queue.FillBytes(has_gradient, 0, num_rows.bound);
  queue.ForEach(num_gradients, MarkRows{row_ids, num_rows.bound, has_gradient});
  ApplyToRows(queue, rule, planes, num_rows, num_gradients, row_ids, gradients);
  WithElement(planes.rows, [&](auto* rows) {
    using Number = std::remove_pointer_t<decltype(rows)>;
    if constexpr (kMeasuresRows<OneRule>) {
      queue.ForEach(num_rows,
                    MoveOtherWholeRows<Number, OneRule>{rule, planes, has_gradient, in_use});
    } else {
      ForEachPackOf(queue, num_rows, planes, nullptr, [&](auto pack, auto grid) {
        return MoveOtherRows<Number, decltype(pack), OneRule>{grid, rule, planes, has_gradient,
                                                              in_use};
      });
    }
  });
}

}  // namespace sok
