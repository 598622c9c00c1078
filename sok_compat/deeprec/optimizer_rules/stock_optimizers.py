# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 1's optimizers, extended to embedding variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from sok_compat.deeprec.optimizer_rules.embedding_trainer import TrainsEmbeddingVariables
from sok_compat.deeprec.optimizer_rules.ordinary_updates import apply_rule, is_fused
from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable
from sok_compat.training.fused_adam import StepSizeOfTables
from sok_compat.training.stock_rules import AppliedRule


class GradientDescentOptimizer(
    TrainsEmbeddingVariables, tf.compat.v1.train.GradientDescentOptimizer
):
    """As tf.compat.v1.train.GradientDescentOptimizer, also for embedding variables.

    API of TensorFlow 1.
    """

    def rule_of(self, variable: EmbeddingVariable, slots: Mapping[str, tf.Variable]) -> AppliedRule:
        return self._applied("sgd", [], {"learning_rate": self._learning_rate_tensor})


class AdagradOptimizer(TrainsEmbeddingVariables, tf.compat.v1.train.AdagradOptimizer):
    """As tf.compat.v1.train.AdagradOptimizer, also for embedding variables. API of TensorFlow 1."""

    fills = {"accumulator": "_initial_accumulator_value"}

    def rule_of(self, variable: EmbeddingVariable, slots: Mapping[str, tf.Variable]) -> AppliedRule:
        numbers = {"learning_rate": self._learning_rate_tensor, "epsilon": 0.0}
        return self._applied("adagrad", [slots["accumulator"]], numbers)


class RowWiseAdagradOptimizer(AdagradOptimizer):
    """Adagrad with one accumulator for each row of an embedding variable. Added by sok_compat.

    It adds up the mean over the row of the squared gradient. Ordinary variables are updated as by
    tf.compat.v1.train.AdagradOptimizer.
    """

    states_are_of_rows = True

    def __init__(self, learning_rate, initial_accumulator_value=0.1, use_locking=False,
                 name="RowWiseAdagrad"):  # fmt: skip
        """Takes the arguments of tf.compat.v1.train.AdagradOptimizer.

        Args:
          learning_rate: a number, a scalar tensor, or a callable that returns one.
          initial_accumulator_value: above 0.
          use_locking: whether concurrent steps update a variable one after the other.
          name: of the optimizer and its slots.
        """
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)

    def rule_of(self, variable: EmbeddingVariable, slots: Mapping[str, tf.Variable]) -> AppliedRule:
        rule = super().rule_of(variable, slots)
        return dataclasses.replace(rule, name="row_wise_adagrad")


class MomentumOptimizer(TrainsEmbeddingVariables, tf.compat.v1.train.MomentumOptimizer):
    """As tf.compat.v1.train.MomentumOptimizer, also for embedding variables.

    API of TensorFlow 1.
    """

    def rule_of(self, variable: EmbeddingVariable, slots: Mapping[str, tf.Variable]) -> AppliedRule:
        rule = "nesterov" if self._use_nesterov else "momentum"
        numbers = {"learning_rate": self._learning_rate_tensor, "momentum": self._momentum_tensor}
        return self._applied(rule, [slots["momentum"]], numbers)


class AdamOptimizer(TrainsEmbeddingVariables, StepSizeOfTables, tf.compat.v1.train.AdamOptimizer):
    """As tf.compat.v1.train.AdamOptimizer. API of TensorFlow 1.

    It is lazy for embedding variables: only the gradient's rows move.
    """

    def rule_of(self, variable: EmbeddingVariable, slots: Mapping[str, tf.Variable]) -> AppliedRule:
        return self._applied("adam", [slots["m"], slots["v"]], self._numbers())

    def _numbers(self):
        return {
            "step_size": self._step_size_of_tables(),
            "beta1": self._beta1_t,
            "beta2": self._beta2_t,
            "epsilon": self._epsilon_t,
        }

    def _apply_sparse_shared(self, grad, var, indices, scatter_add):
        # A sparse gradient moves all rows of an ordinary variable. TensorFlow does this by ten ops,
        # each of which reads and writes a whole variable; this is one pass, with its numbers.
        if not is_fused(var):
            return super()._apply_sparse_shared(grad, var, indices, scatter_add)
        states = [self.get_slot(var, name) for name in ("m", "v")]
        return apply_rule("adam", var, states, grad, indices, self._numbers(), moves_all_rows=True)


class FtrlOptimizer(TrainsEmbeddingVariables, tf.compat.v1.train.FtrlOptimizer):
    """As tf.compat.v1.train.FtrlOptimizer, also for embedding variables if learning_rate_power is
    -0.5.

    API of TensorFlow 1. Of embedding variables l1 is a group lasso, as in DeepRec: it scales whole
    rows, or makes them zero, by the norm of `linear`.
    """

    fills = {"accum": "_initial_accumulator_value"}

    def rule_of(self, variable: EmbeddingVariable, slots: Mapping[str, tf.Variable]) -> AppliedRule:
        """See the base class.

        Raises:
          NotImplementedError: learning_rate_power is not -0.5.
        """
        if self._learning_rate_power != -0.5:
            raise NotImplementedError(
                "FtrlOptimizer trains embedding variables with learning_rate_power=-0.5 only, got "
                f"{self._learning_rate_power}"
            )
        numbers = {
            "learning_rate": self._learning_rate_tensor,
            "l1": self._l1_regularization_strength_tensor,
            "l2": self._adjusted_l2_regularization_strength_tensor,
            "l2_shrinkage": self._l2_shrinkage_regularization_strength_tensor,
        }
        return self._applied("ftrl_group_lasso", [slots["accum"], slots["linear"]], numbers)
