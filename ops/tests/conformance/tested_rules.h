// SPDX-License-Identifier: Apache-2.0
// Every rule, and its formula in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <variant>
#include <vector>

#include "ops/engine/rules.h"

namespace sok::testing {

struct RowOfDoubles {
  std::vector<double> gradients, values;
  std::vector<std::vector<double>> states;  // [kStates][StateWidth]
};

struct TestedRule {
  const char* name;
  Rule rule;
  std::function<void(double g, double& value, double* states)> formula;
  std::function<void(RowOfDoubles* row)> row_formula = nullptr;  // instead, of a whole row

  int num_states() const {
    return std::visit([](const auto& one_rule) { return one_rule.kStates; }, rule);
  }
  int64_t state_width(int64_t dim) const {
    return std::visit([=](const auto& one_rule) { return StateWidth(one_rule, dim); }, rule);
  }
};

inline TestedRule Momentum(const char* name, bool use_nesterov) {
  MomentumRule rule;
  rule.learning_rate = 0.1f;
  rule.momentum = 0.9f;
  rule.use_nesterov = use_nesterov;
  return {name, rule, [use_nesterov](double g, double& value, double* states) {
            states[0] = 0.9 * states[0] + g;
            value -= 0.1 * (use_nesterov ? g + 0.9 * states[0] : states[0]);
          }};
}

/// TensorFlow's ApplyFtrlV2.
inline void Ftrl(double g, double& value, double* states) {
  const double new_sum = states[0] + g * g;
  const double sigma = (std::sqrt(new_sum) - std::sqrt(states[0])) / 0.1;
  states[1] += g + 2 * 0.01 * value - sigma * value;
  states[0] = new_sum;
  const double clipped = std::max(-0.3, std::min(0.3, states[1]));
  value = (clipped - states[1]) / (std::sqrt(new_sum) / 0.1 + 2 * 0.02);
}

/// DeepRec's KvSparseApplyFtrlOp.
inline void FtrlGroupLasso(RowOfDoubles* row) {
  std::vector<double> quadratics;
  double squares = 0;
  for (size_t c = 0; c < row->values.size(); ++c) {
    const double g = row->gradients[c], shrunk = g + 2 * 0.01 * row->values[c];
    double& sum = row->states[0][c];
    const double root = std::sqrt(sum + shrunk * shrunk);
    row->states[1][c] += shrunk - (root - std::sqrt(sum)) / 0.1 * row->values[c];
    quadratics.push_back(root / 0.1 + 2 * 0.02);
    squares += row->states[1][c] * row->states[1][c];
    sum += g * g;
  }
  const double norm = std::sqrt(squares);
  for (size_t c = 0; c < row->values.size(); ++c) {
    const double scale = norm > 0.9 ? (0.9 - norm) / (quadratics[c] * norm) : 0;
    row->values[c] = scale * row->states[1][c];
  }
}

inline void RowWiseAdagrad(RowOfDoubles* row) {
  double squares = 0;
  for (const double g : row->gradients) squares += g * g;
  double& sum = row->states[0][0];
  sum += squares / static_cast<double>(row->values.size());
  for (size_t c = 0; c < row->values.size(); ++c) {
    row->values[c] -= 0.1 * row->gradients[c] / (std::sqrt(sum) + 1e-7);
  }
}

inline std::vector<TestedRule> Rules() {
  return {
      {"sgd", SgdRule{0.1f}, [](double g, double& value, double*) { value -= 0.1 * g; }},
      {"adagrad", AdagradRule{0.1f, 1e-7f},
       [](double g, double& value, double* states) {
         states[0] += g * g;
         value -= 0.1 * g / (std::sqrt(states[0]) + 1e-7);
       }},
      {"row-wise adagrad", RowWiseAdagradRule{0.1f, 1e-7f}, nullptr, RowWiseAdagrad},
      {"adam", AdamRule{0.01f, 0.9f, 0.999f, 1e-7f},
       [](double g, double& value, double* states) {
         states[0] = 0.9 * states[0] + 0.1 * g;
         states[1] = 0.999 * states[1] + 0.001 * g * g;
         value -= 0.01 * states[0] / (std::sqrt(states[1]) + 1e-7);
       }},
      {"adamw", AdamWRule{{0.01f, 0.9f, 0.999f, 1e-7f}, 0.05f},
       [](double g, double& value, double* states) {
         states[0] = 0.9 * states[0] + 0.1 * g;
         states[1] = 0.999 * states[1] + 0.001 * g * g;
         value = 0.95 * value - 0.01 * states[0] / (std::sqrt(states[1]) + 1e-7);
       }},
      {"decay", DecayRule{0.75f, 0.4f},
       [](double, double&, double* states) { states[0] = std::max(0.75 * states[0], 0.4); }},
      {"ftrl", FtrlRule{0.1f, 0.3f, 0.02f, 0.01f}, Ftrl},
      {"ftrl group lasso", FtrlGroupLassoRule{0.1f, 0.9f, 0.02f, 0.01f}, nullptr, FtrlGroupLasso},
      Momentum("momentum", false),
      Momentum("nesterov momentum", true),
      {"rmsprop", RmspropRule{0.01f, 0.9f, 0.8f, 1e-3f},
       [](double g, double& value, double* states) {
         states[0] = 0.9 * states[0] + 0.1 * g * g;
         states[1] = 0.8 * states[1] + 0.01 * g / std::sqrt(states[0] + 1e-3);
         value -= states[1];
       }}};
}

}  // namespace sok::testing
