// SPDX-License-Identifier: Apache-2.0
// Optimizers as rules: the update of one value and its states, given its gradient. All engines
// compile these; to add an optimizer, add a rule here and its name to named_rules.cc. A rule that
// has a member `Measure` also takes a number of the whole row: the sum of Measure(gradient, value,
// states) over its columns, before any of them changes. If it has a member `UpdateRow`, its one
// state is a number of the whole row, and it takes what UpdateRow(sum, dim, &state) returns.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "ops/base/host_device.h"
#include "ops/base/wide_vectors.h"
#include "ops/engine/rounding.h"
#include "ops/engine/rows_view.h"

namespace sok {

constexpr int kMaxStates = 2;

/// value -= learning_rate * g.
struct SgdRule {
  static constexpr int kStates = 0;
  float learning_rate = 0.0f;

  SOK_HOST_DEVICE void operator()(float g, float& value, float*) const {
    value -= learning_rate * g;
  }
};

/// States: accumulator. accumulator += g^2; value -= learning_rate * g / (sqrt(accumulator) +
/// epsilon). TF1's Adagrad has no epsilon.
struct AdagradRule {
  static constexpr int kStates = 1;
  float learning_rate = 0.0f;
  float epsilon = 0.0f;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* states) const {
    states[0] += g * g;
    value -= learning_rate * g / (std::sqrt(states[0]) + epsilon);
  }
};

/// State of the row: accumulator. accumulator += the mean of g^2 over the row; value -=
/// learning_rate / (sqrt(accumulator) + epsilon) * g. The exact row-wise Adagrad of FBGEMM
/// (fbgemm_gpu/codegen/genscript/optimizers.py, rowwise_adagrad).
struct RowWiseAdagradRule {
  static constexpr int kStates = 1;
  static constexpr int kMeasureLanes = 8;
  float learning_rate = 0.0f;
  float epsilon = 0.0f;

  SOK_HOST_DEVICE float Measure(float g, float, const float*) const { return g * g; }
  SOK_HOST_DEVICE float UpdateRow(float squares, int64_t dim, float* accumulator) const {
    *accumulator += squares / static_cast<float>(dim);
    return learning_rate / (std::sqrt(*accumulator) + epsilon);
  }
  SOK_HOST_DEVICE void operator()(float g, float& value, float*, float step) const {
    value -= step * g;
  }
};

/// States: m, v. value -= step_size * m / (sqrt(v) + epsilon), where step_size = learning rate *
/// sqrt(1 - beta2^t) / (1 - beta1^t). Applied to rows by id it is lazy Adam, to all rows in use
/// Adam.
struct AdamRule {
  static constexpr int kStates = 2;
  float step_size = 0.0f;
  float beta1 = 0.0f;
  float beta2 = 0.0f;
  float epsilon = 0.0f;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* states) const {
    states[0] = beta1 * states[0] + (1.0f - beta1) * g;
    states[1] = beta2 * states[1] + (1.0f - beta2) * (g * g);
    Move(value, states);
  }
  /// As with a gradient of zero, except that an m of -0 stays -0, as in TensorFlow's dense Adam.
  SOK_HOST_DEVICE void Decay(float& value, float* states) const {
    states[0] *= beta1;
    states[1] *= beta2;
    Move(value, states);
  }

 private:
  SOK_HOST_DEVICE void Move(float& value, const float* states) const {
    value -= step_size * states[0] / (std::sqrt(states[1]) + epsilon);
  }
};

/// States: m, v. Adam with decoupled weight decay: value -= weight_decay * value, then Adam's
/// update.
struct AdamWRule : AdamRule {
  float weight_decay = 0.0f;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* states) const {
    value -= weight_decay * value;
    AdamRule::operator()(g, value, states);
  }
};

/// States: accumulator. accumulator = max(rate * accumulator, least); value and gradient play no
/// part. For all rows in use, between the steps of another rule.
struct DecayRule {
  static constexpr int kStates = 1;
  float rate = 1.0f;
  float least = 0.0f;

  SOK_HOST_DEVICE void operator()(float, float&, float* states) const {
    const float decayed = rate * states[0];
    states[0] = decayed < least ? least : decayed;
  }
};

/// States: accumulator, linear. TensorFlow's Ftrl with its default learning rate power, -1/2.
struct FtrlRule {
  static constexpr int kStates = 2;
  float learning_rate = 0.0f;
  float l1 = 0.0f;
  float l2 = 0.0f;
  float l2_shrinkage = 0.0f;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* states) const {
    const float shrunk = g + 2.0f * l2_shrinkage * value;
    const float sum = states[0] + g * g;
    const float root = std::sqrt(sum);
    states[1] += shrunk - (root - std::sqrt(states[0])) / learning_rate * value;
    states[0] = sum;
    const float quadratic = root / learning_rate + 2.0f * l2;
    const float linear = states[1];
    const float excess = linear > l1 ? l1 - linear : (linear < -l1 ? -l1 - linear : 0.0f);
    value = excess / quadratic;
  }
};

/// States: accumulator, linear. DeepRec's Ftrl of embedding variables (KvSparseApplyFtrlOp in
/// training_ali_ops.cc): l1 is a group lasso, which scales a whole row by the norm of `linear`, or
/// makes it zero; shrinkage also counts in the step's square of the gradient.
struct FtrlGroupLassoRule {
  static constexpr int kStates = 2;
  static constexpr int kMeasureLanes = 1;
  float learning_rate = 0.0f;
  float l1 = 0.0f;
  float l2 = 0.0f;
  float l2_shrinkage = 0.0f;

  SOK_HOST_DEVICE float Measure(float g, float value, const float* states) const {
    const float linear = Linear(g, value, states);
    return linear * linear;
  }
  SOK_HOST_DEVICE void operator()(float g, float& value, float* states, float squares) const {
    const float linear = Linear(g, value, states);
    const float quadratic = Root(g, value, states) / learning_rate + 2.0f * l2;
    const float norm = std::sqrt(squares);
    value = norm > l1 ? (l1 - norm) / (quadratic * norm) * linear : 0.0f;
    states[0] += g * g;
    states[1] = linear;
  }

 private:
  SOK_HOST_DEVICE float Shrunk(float g, float value) const {
    return g + 2.0f * l2_shrinkage * value;
  }
  SOK_HOST_DEVICE float Root(float g, float value, const float* states) const {
    const float shrunk = Shrunk(g, value);
    return std::sqrt(states[0] + shrunk * shrunk);
  }
  SOK_HOST_DEVICE float Linear(float g, float value, const float* states) const {
    const float sigma = (Root(g, value, states) - std::sqrt(states[0])) / learning_rate;
    return states[1] + (Shrunk(g, value) - sigma * value);
  }
};

/// States: momentum. As TensorFlow's: m = momentum * m + g; value -= learning_rate * m, or with
/// nesterov learning_rate * (g + momentum * m).
struct MomentumRule {
  static constexpr int kStates = 1;
  float learning_rate = 0.0f;
  float momentum = 0.0f;
  bool use_nesterov = false;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* states) const {
    states[0] = states[0] * momentum + g;
    const float step = learning_rate * states[0];
    value -= use_nesterov ? learning_rate * g + learning_rate * momentum * states[0] : step;
  }
};

/// States: mean square, momentum. As TF1's: ms = rho * ms + (1 - rho) g^2; m = momentum * m +
/// learning_rate * g / sqrt(ms + epsilon); value -= m.
struct RmspropRule {
  static constexpr int kStates = 2;
  float learning_rate = 0.0f;
  float rho = 0.0f;
  float momentum = 0.0f;
  float epsilon = 0.0f;

  SOK_HOST_DEVICE void operator()(float g, float& value, float* states) const {
    states[0] = states[0] * rho + g * g * (1.0f - rho);
    states[1] = states[1] * momentum + 1.0f / std::sqrt(states[0] + epsilon) * learning_rate * g;
    value -= states[1];
  }
};

using Rule = std::variant<SgdRule, AdagradRule, RowWiseAdagradRule, AdamRule, AdamWRule, DecayRule,
                          FtrlRule, FtrlGroupLassoRule, MomentumRule, RmspropRule>;

template <typename OneRule, typename = void>
inline constexpr bool kMeasuresRows = false;
template <typename OneRule>
inline constexpr bool kMeasuresRows<OneRule, std::void_t<decltype(&OneRule::Measure)>> = true;

template <typename OneRule, typename = void>
inline constexpr bool kHasRowState = false;
template <typename OneRule>
inline constexpr bool kHasRowState<OneRule, std::void_t<decltype(&OneRule::UpdateRow)>> = true;

/// States of each value.
template <typename OneRule>
inline constexpr int kValueStates = kHasRowState<OneRule> ? 0 : OneRule::kStates;

/// Floats of a row of one state.
template <typename OneRule>
constexpr int64_t StateWidth(const OneRule&, int64_t dim) {
  return kHasRowState<OneRule> ? 1 : dim;
}

/// What a rule that measures rows takes of one: measure(column) is that of a column. Columns are
/// added up in kMeasureLanes interleaved sums, which vectorize, then these in halves: on every
/// engine in this order.
template <typename OneRule, typename Measure>
SOK_HOST_DEVICE SOK_INLINE float MeasureRow(const OneRule& rule, int64_t dim, float* row_state,
                                            const Measure& measure) {
  constexpr int kLanes = OneRule::kMeasureLanes;
  float sums[kLanes] = {};
  int64_t column = 0;
  for (; column + kLanes <= dim; column += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += measure(column + lane);
  }
  for (int lane = 0; column + lane < dim; ++lane) sums[lane] += measure(column + lane);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  if constexpr (kHasRowState<OneRule>) return rule.UpdateRow(sums[0], dim, row_state);
  return sums[0];
}

/// The update of one value; `measure` is that of its row, if the rule takes it.
template <typename OneRule>
SOK_HOST_DEVICE void ApplyToValue(const OneRule& rule, float g, float& value, float* states,
                                  float measure) {
  if constexpr (kMeasuresRows<OneRule>) {
    rule(g, value, states, measure);
  } else {
    rule(g, value, states);
  }
}

/// The effect of a step on a row in use that has no gradient.
template <typename OneRule>
SOK_HOST_DEVICE void ApplyWithoutGradient(const OneRule& rule, float& value, float* states,
                                          float measure) {
  ApplyToValue(rule, 0.0f, value, states, measure);
}
SOK_HOST_DEVICE inline void ApplyWithoutGradient(const AdamRule& rule, float& value, float* states,
                                                 float) {
  rule.Decay(value, states);
}

/// The memory of a rule. States are slots of their own, or adjacent in one slot: then their views
/// start at their first columns.
struct RulePlanes {
  RowsView rows;
  RowsView states[kMaxStates];  // float32, of at least StateWidth
  Rounding rounding;            // of rows of two bytes

  SOK_HOST_DEVICE int64_t dim() const { return rows.width; }
};

}  // namespace sok
