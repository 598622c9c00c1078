// SPDX-License-Identifier: Apache-2.0
// Optimizers as rules: what becomes of one value and its states, given its gradient. Every engine
// compiles these; to add an optimizer is to add a rule here.
#ifndef SOK_OPS_ENGINE_RULES_H_
#define SOK_OPS_ENGINE_RULES_H_

#include <cmath>
#include <cstdint>
#include <variant>

#include "ops/base/host_device.h"

namespace sok {

constexpr int kMaxStates = 3;

/// value -= learning_rate * g.
struct SgdRule {
  static constexpr int kStates = 0;
  float learning_rate = 0.0f;
};

/// States: accumulator. accumulator += g^2; value -= learning_rate * g / (sqrt(accumulator) +
/// epsilon). TF1's Adagrad has no epsilon.
struct AdagradRule {
  static constexpr int kStates = 1;
  float learning_rate = 0.0f;
  float epsilon = 0.0f;
};

/// States: m, v. value -= step_size * m / (sqrt(v) + epsilon), where step_size = learning rate *
/// sqrt(1 - beta2^t) / (1 - beta1^t). On rows by id it is lazy Adam, on all rows in use Adam.
struct AdamRule {
  static constexpr int kStates = 2;
  float step_size = 0.0f;
  float beta1 = 0.0f;
  float beta2 = 0.0f;
  float epsilon = 0.0f;
};

/// States: accumulator, linear. TensorFlow's Ftrl with the learning rate power -1/2, its default.
struct FtrlRule {
  static constexpr int kStates = 2;
  float learning_rate = 0.0f;
  float l1 = 0.0f;
  float l2 = 0.0f;
  float l2_shrinkage = 0.0f;
};

/// States: momentum. TensorFlow's: m = momentum * m + g; value -= learning_rate * m, with nesterov
/// learning_rate * (g + momentum * m).
struct MomentumRule {
  static constexpr int kStates = 1;
  float learning_rate = 0.0f;
  float momentum = 0.0f;
  bool use_nesterov = false;
};

/// States: mean square, momentum. TF1's: ms = rho * ms + (1 - rho) g^2; m = momentum * m +
/// learning_rate * g / sqrt(ms + epsilon); value -= m.
struct RmspropRule {
  static constexpr int kStates = 2;
  float learning_rate = 0.0f;
  float rho = 0.0f;
  float momentum = 0.0f;
  float epsilon = 0.0f;
};

using Rule = std::variant<SgdRule, AdagradRule, AdamRule, FtrlRule, MomentumRule, RmspropRule>;

/// The memory that a rule works on. States may be slots of their own, or stand side by side in one.
struct RulePlanes {
  struct State {
    float* data = nullptr;  // of row 0
    int64_t stride = 0;     // floats from one row to the next, at least dim
  };
  int64_t dim = 0;
  float* rows = nullptr;  // [capacity, dim]
  State states[kMaxStates];
};

}  // namespace sok

#endif  // SOK_OPS_ENGINE_RULES_H_
