# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 1's optimizers that train embedding variables, too."""

import dataclasses

import tensorflow as tf

from sok_compat.deeprec.optimizer_rules.embedding_trainer import TrainsEmbeddingVariables
from sok_compat.training.fused_adam import StepSizeOfTables

_train = tf.compat.v1.train


class GradientDescentOptimizer(TrainsEmbeddingVariables, _train.GradientDescentOptimizer):
    """As of tf.compat.v1.train, for embedding variables, too."""

    def rule_of(self, variable, slots):
        """See the base class."""
        return self._applied("sgd", [], [self._learning_rate_tensor])


class AdagradOptimizer(TrainsEmbeddingVariables, _train.AdagradOptimizer):
    """As of tf.compat.v1.train, for embedding variables, too."""

    fills = {"accumulator": "_initial_accumulator_value"}

    def rule_of(self, variable, slots):
        """See the base class."""
        return self._applied("adagrad", [slots["accumulator"]], [self._learning_rate_tensor, 0.0])


class MomentumOptimizer(TrainsEmbeddingVariables, _train.MomentumOptimizer):
    """As of tf.compat.v1.train, for embedding variables, too."""

    def rule_of(self, variable, slots):
        """See the base class."""
        hyperparameters = [self._learning_rate_tensor, self._momentum_tensor]
        rule = self._applied("momentum", [slots["momentum"]], hyperparameters)
        return dataclasses.replace(rule, use_nesterov=self._use_nesterov)


class AdamOptimizer(TrainsEmbeddingVariables, StepSizeOfTables, _train.AdamOptimizer):
    """As of tf.compat.v1.train; of embedding variables, whose other rows do not move, lazily."""

    def rule_of(self, variable, slots):
        """See the base class."""
        step_size = self._step_size_of_tables()
        hyperparameters = [step_size, self._beta1_t, self._beta2_t, self._epsilon_t]
        return self._applied("adam", [slots["m"], slots["v"]], hyperparameters)


class FtrlOptimizer(TrainsEmbeddingVariables, _train.FtrlOptimizer):
    """As of tf.compat.v1.train, for embedding variables, too: there with a learning_rate_power of
    -0.5 only."""

    fills = {"accum": "_initial_accumulator_value"}

    def rule_of(self, variable, slots):
        """See the base class.

        Raises:
          NotImplementedError: another learning_rate_power.
        """
        if self._learning_rate_power != -0.5:
            raise NotImplementedError(
                "FtrlOptimizer trains embedding variables with learning_rate_power=-0.5 only, got "
                f"{self._learning_rate_power}"
            )
        hyperparameters = [
            self._learning_rate_tensor,
            self._l1_regularization_strength_tensor,
            self._adjusted_l2_regularization_strength_tensor,
            self._l2_shrinkage_regularization_strength_tensor,
        ]
        return self._applied("ftrl", [slots["accum"], slots["linear"]], hyperparameters)
