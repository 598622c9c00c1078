// SPDX-License-Identifier: Apache-2.0
// Optimizers on rows and their state by row id, each one pass over what changes. No table.
#ifndef SOK_OPS_DEVICE_OPTIMIZERS_H_
#define SOK_OPS_DEVICE_OPTIMIZERS_H_

#include <cmath>
#include <cstdint>

#include "ops/device/count.h"
#include "ops/device/float_pack.h"
#include "ops/lookup/adagrad.h"
#include "ops/lookup/adam.h"

namespace sok {

// A rule says what becomes of one value: kStates floats of state each, side by side by row in the
// state plane ([first state of all columns | second state of all columns]).

/// value -= learning_rate * g.
struct SgdRule {
  static constexpr int kStates = 0;

  float learning_rate;

  SOK_HOST_DEVICE void operator()(float g, float& value, float*) const {
    value -= learning_rate * g;
  }
};

/// As ApplyAdagrad: the state is the accumulator.
struct AdagradRule {
  static constexpr int kStates = 1;

  AdagradStep step;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* state) const {
    state[0] += g * g;
    value -= step.learning_rate * g / (std::sqrt(state[0]) + step.epsilon);
  }
};

/// As ApplyLazyAdam: the state is m, then v.
struct AdamRule {
  static constexpr int kStates = 2;

  AdamStep step;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* state) const {
    state[0] = step.beta1 * state[0] + (1.0f - step.beta1) * g;
    state[1] = step.beta2 * state[1] + (1.0f - step.beta2) * (g * g);
    value -= step.step_size * state[0] / (std::sqrt(state[1]) + step.epsilon);
  }
};

/// TensorFlow's Ftrl (McMahan et al., 2013) with the learning rate power -1/2, which is its
/// default: the state is the sum of g^2, then the linear term.
struct FtrlRule {
  static constexpr int kStates = 2;

  float learning_rate;
  float l1;
  float l2;
  float l2_shrinkage;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* state) const {
    const float shrunk = g + 2.0f * l2_shrinkage * value;
    const float sum = state[0] + g * g;
    const float root = std::sqrt(sum);
    state[1] += shrunk - (root - std::sqrt(state[0])) / learning_rate * value;
    state[0] = sum;
    const float quadratic = root / learning_rate + 2.0f * l2;
    const float linear = state[1];
    const float excess = linear > l1 ? l1 - linear : (linear < -l1 ? -l1 - linear : 0.0f);
    value = excess / quadratic;
  }
};

struct OptimizerPlanes {
  int64_t dim = 0;
  float* rows = nullptr;   // [capacity, dim]
  float* state = nullptr;  // [capacity, kStates * dim]; unused where the rule has no state
};

/// Applies the rule to one pack of a row.
template <typename Pack, typename Rule>
SOK_HOST_DEVICE void UpdatePack(const Rule& rule, const OptimizerPlanes& planes, int64_t row_id,
                                int64_t column, const Pack& gradient) {
  float* row = planes.rows + row_id * planes.dim + column;
  float* state = nullptr;
  if constexpr (Rule::kStates > 0) {
    state = planes.state + row_id * Rule::kStates * planes.dim + column;
  }
  constexpr int kLoadedStates = Rule::kStates == 0 ? 1 : Rule::kStates;
  Pack states[kLoadedStates];
  SOK_UNROLL
  for (int s = 0; s < Rule::kStates; ++s) states[s] = LoadPack<Pack>(state + s * planes.dim);
  Pack values = LoadPack<Pack>(row);
  SOK_UNROLL
  for (int i = 0; i < Pack::width; ++i) {
    float value_states[kLoadedStates];
    SOK_UNROLL
    for (int s = 0; s < Rule::kStates; ++s) value_states[s] = states[s].at[i];
    rule(gradient.at[i], values.at[i], value_states);
    SOK_UNROLL
    for (int s = 0; s < Rule::kStates; ++s) states[s].at[i] = value_states[s];
  }
  SOK_UNROLL
  for (int s = 0; s < Rule::kStates; ++s) StorePack(state + s * planes.dim, states[s]);
  StorePack(row, values);
}

template <typename Pack, typename Rule>
struct UpdateRows {
  PackGrid<Pack> grid;
  Rule rule;
  OptimizerPlanes planes;
  const int64_t* row_ids;
  const float* gradients;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    const int64_t row_id = row_ids[place.row];
    if (row_id < 0) return;
    UpdatePack(rule, planes, row_id, place.column,
               LoadPack<Pack>(gradients + place.row * planes.dim + place.column));
  }
};

/// For the rows in use that have no gradient in this step: as with a gradient of zero.
template <typename Pack>
struct DecayAdamRows {
  PackGrid<Pack> grid;
  AdamRule rule;
  OptimizerPlanes planes;
  const unsigned char* has_gradient;  // [num_rows]
  const uint32_t* held;               // one bit for each row in use; nullptr: all are

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const auto place = grid.At(i);
    if (has_gradient[place.row]) return;
    if (held != nullptr && ((held[place.row / kTile] >> (place.row % kTile)) & 1u) == 0) return;
    UpdatePack(rule, planes, place.row, place.column, ZeroPack<Pack>());
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

/// Applies `rule` to the rows in `row_ids`, which are distinct; a negative one is passed over.
template <typename Queue, typename Rule>
void ApplyToRows(Queue& queue, const Rule& rule, const OptimizerPlanes& planes, Count num_gradients,
                 const int64_t* row_ids,    // [num_gradients]
                 const float* gradients) {  // [num_gradients, dim]
  ForEachPack(queue, num_gradients, planes.dim, {planes.rows, planes.state, gradients},
              [&](auto pack, auto grid) {
                return UpdateRows<decltype(pack), Rule>{grid, rule, planes, row_ids, gradients};
              });
}

/// Adam on all rows below num_rows: those not in `row_ids` have a gradient of zero, so their m and
/// v decay and they move, too. Rows of erased keys also move, which nobody sees: a row starts
/// afresh when it is handed out again. With `held`, one bit for each row, the others stay.
template <typename Queue>
void ApplyAdamToAllRows(Queue& queue, const AdamStep& step, const OptimizerPlanes& planes,
                        Count num_rows, Count num_gradients,
                        const int64_t* row_ids,       // [num_gradients], distinct
                        const float* gradients,       // [num_gradients, dim]
                        unsigned char* has_gradient,  // [num_rows] of scratch memory
                        const uint32_t* held = nullptr) {
  const AdamRule rule{step};
  queue.FillBytes(has_gradient, 0, num_rows.bound);
  queue.ForEach(num_gradients, MarkRows{row_ids, num_rows.bound, has_gradient});
  ApplyToRows(queue, rule, planes, num_gradients, row_ids, gradients);
  ForEachPack(queue, num_rows, planes.dim, {planes.rows, planes.state}, [&](auto pack, auto grid) {
    return DecayAdamRows<decltype(pack)>{grid, rule, planes, has_gradient, held};
  });
}

}  // namespace sok

#endif  // SOK_OPS_DEVICE_OPTIMIZERS_H_
