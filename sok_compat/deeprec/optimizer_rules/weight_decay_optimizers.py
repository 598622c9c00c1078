# SPDX-License-Identifier: Apache-2.0
"""Decoupled weight decay: AdamW, and any optimizer with it.

After tensorflow/python/training/weight_decay_optimizers.py of DeepRec.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.optimizer_rules.embedding_trainer import TrainsEmbeddingVariables
from sok_compat.deeprec.optimizer_rules.ordinary_updates import (
    ActsFirst,
    rows_of,
    subtract_from_rows,
)
from sok_compat.deeprec.optimizer_rules.stock_optimizers import AdamOptimizer
from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable
from sok_compat.training.stock_rules import AppliedRule


class DecoupledWeightDecayExtension(ActsFirst):
    """Mixin before a tf.compat.v1.train.Optimizer: row -= weight_decay * row before each update.

    API of DeepRec. The learning rate does not scale the decay. A sparse gradient decays its own
    rows only. Embedding variables decay with Adam.
    """

    _use_locking: bool  # of the optimizer

    def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
        """As the optimizer, and:

        Args:
          weight_decay: a number, a scalar tensor, or a callable that returns one.
        """
        super().__init__(*args, **kwargs)
        self._weight_decay = weight_decay
        self._decay_var_list: Sequence[tf.Variable] | None = None

    def minimize(
        self, *args: Any, decay_var_list: Sequence[tf.Variable] | None = None, **kwargs: Any
    ) -> tf.Operation:
        """As Optimizer.minimize, with `decay_var_list`: the variables to decay; None: all."""
        self._decay_var_list = decay_var_list
        try:
            return super().minimize(*args, **kwargs)  # type: ignore[misc]
        finally:
            self._decay_var_list = None

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
        decay_var_list: Sequence[tf.Variable] | None = None,
    ) -> tf.Operation:
        """As Optimizer.apply_gradients, with `decay_var_list`, as of minimize."""
        if decay_var_list is None:
            return super().apply_gradients(  # type: ignore[misc]
                grads_and_vars, global_step, name
            )
        before, self._decay_var_list = self._decay_var_list, decay_var_list
        try:
            return super().apply_gradients(  # type: ignore[misc]
                grads_and_vars, global_step, name
            )
        finally:
            self._decay_var_list = before

    def _prepare(self):
        super()._prepare()
        weight_decay = self._call_if_callable(self._weight_decay)
        self._weight_decay_t = tf.convert_to_tensor(weight_decay, name="weight_decay")

    def _decays(self, variable):
        return self._decay_var_list is None or any(v is variable for v in self._decay_var_list)

    def rule_of(self, variable: EmbeddingVariable, slots: Mapping[str, tf.Variable]) -> AppliedRule:
        """See the base class.

        Raises:
          NotImplementedError: the optimizer is not Adam.
        """
        adam = super().rule_of(variable, slots)  # type: ignore[misc]
        if not self._decays(variable):
            return adam
        self._check_is_adam(variable, adam.name)
        weight_decay = tf.cast(self._weight_decay_t, tf.float32)
        numbers = {**adam.hyperparameters, "weight_decay": weight_decay}
        return dataclasses.replace(adam, name="adamw", hyperparameters=numbers)

    def before_update(self, variable: tf.Variable, indices: tf.Tensor | None) -> tf.Operation:
        """See the base class; the rule of embedding variables includes the decay."""
        if not self._decays(variable):
            return tf.no_op()
        if isinstance(variable, EmbeddingVariable):
            if not isinstance(self, TrainsEmbeddingVariables):
                self._check_is_adam(variable, "TensorFlow's own")
            return tf.no_op()
        rows = rows_of(variable, indices)
        decay = tf.cast(self._weight_decay_t, rows.dtype) * rows
        return tf.group(subtract_from_rows(variable, decay, indices, self._use_locking))

    def _check_is_adam(self, variable, rule):
        if rule != "adam":
            raise NotImplementedError(
                f"{type(self).__name__} cannot decay the embedding variable {variable.name}, whose "
                f"update is {rule}: use tf.train.AdamWOptimizer, or give minimize a "
                "decay_var_list without it"
            )


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam with decoupled weight decay: row -= weight_decay * row before each update.

    API of DeepRec, from tf.contrib.opt. The learning rate does not scale the decay. A sparse
    gradient decays its own rows only; Adam then moves all rows of an ordinary variable, but only
    the gradient's rows of an embedding variable.
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        """As tf.compat.v1.train.AdamOptimizer, and:

        Args:
          weight_decay: a number, a scalar tensor, or a callable that returns one, as the next four
            arguments.
          learning_rate: Adam's learning rate.
          beta1: decay of m.
          beta2: decay of v.
          epsilon: added to sqrt(v).
          use_locking: whether concurrent steps update a variable one after the other.
          name: name of the optimizer.
        """
        super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """The class of an optimizer with decoupled weight decay. API of DeepRec.

    Its first argument is the weight decay, others are the optimizer's; minimize and apply_gradients
    take a `decay_var_list`.

    Args:
      base_optimizer: a class of optimizers of tf.train.
    """
    bases = (DecoupledWeightDecayExtension, base_optimizer)
    return type("OptimizerWithDecoupledWeightDecay", bases, {})
