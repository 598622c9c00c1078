# SPDX-License-Identifier: Apache-2.0
"""DeepRec's variants of Adam, for embedding variables and ordinary variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.optimizer_rules.embedding_trainer import TrainsEmbeddingVariables
from sok_compat.deeprec.optimizer_rules.ordinary_updates import (
    apply_rule,
    assign_rows,
    handle_of,
    is_fused,
    rows_of,
    subtract_from_rows,
)
from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable
from sok_compat.training.fused_adam import adam_step_size
from sok_compat.training.stock_rules import AppliedRule


class AdamAsyncOptimizer(TrainsEmbeddingVariables, tf.compat.v1.train.Optimizer):
    """Adam with beta powers per variable. API of DeepRec.

    Sparse gradients only move their own rows, also of ordinary variables. The slots of m and v are
    '<variable>/<name>' and '<variable>/<name>_1'; scalar slots '..._2' and '..._3' have the powers.
    """

    updates_one_by_one = True

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        apply_sparse_rmsprop: bool = False,
        name: str = "AdamAsync",
    ) -> None:
        """As tf.compat.v1.train.AdamOptimizer, and:

        Args:
          learning_rate: a number, a scalar tensor, or a callable that returns one, as the next
            three arguments.
          beta1: decay of m.
          beta2: decay of v.
          epsilon: added to sqrt(v).
          use_locking: whether concurrent steps update a variable one after the other.
          apply_sparse_rmsprop: sparse gradients use v = beta2 v + (1 - beta2) g^2, m = beta1 m +
            learning_rate g / sqrt(v + epsilon), row -= m.
          name: name of the optimizer.
        """
        super().__init__(use_locking, name)
        self._numbers = learning_rate, beta1, beta2, epsilon
        self._apply_sparse_rmsprop = apply_sparse_rmsprop

    def _create_slots(self, var_list):
        _, *betas, _ = (self._call_if_callable(number) for number in self._numbers)
        for variable in var_list:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)
            for number, beta in enumerate(betas, 1):
                first, op_name = tf.convert_to_tensor(beta), f"{self._name}_{number + 1}"
                self._get_or_make_slot(variable, first, f"beta{number}_power", op_name)

    def _prepare(self):
        self._tensors = [
            tf.convert_to_tensor(self._call_if_callable(number), name=name)
            for number, name in zip(self._numbers, ("learning_rate", "beta1", "beta2", "epsilon"))
        ]

    def rule_of(self, variable: EmbeddingVariable, slots: Mapping[str, tf.Variable]) -> AppliedRule:
        rule, states, numbers = self._rule(variable)
        return self._applied(rule, [slots[state] for state in states], numbers)

    def _rule(self, variable):
        """(name of the rule, slots of its states, hyperparameters)."""
        learning_rate, beta1, beta2, epsilon = self._tensors
        if self._apply_sparse_rmsprop:
            rates = {"learning_rate": learning_rate, "rho": beta2, "momentum": beta1}
            return "rmsprop", ("v", "m"), {**rates, "epsilon": epsilon}
        rates = {"step_size": self._step_size(variable, tf.float32), "beta1": beta1, "beta2": beta2}
        return "adam", ("m", "v"), {**rates, "epsilon": epsilon}

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        update = super()._resource_apply_sparse_duplicate_indices(grad, handle, indices)
        is_embedding = isinstance(handle, EmbeddingVariable)
        return self._with_next_powers(handle, update) if is_embedding else update

    def _apply_dense(self, grad, var):
        return self._update_all(tf.raw_ops.ApplyAdam, var, grad)

    def _resource_apply_dense(self, grad, handle):
        if isinstance(handle, EmbeddingVariable):
            return super()._resource_apply_dense(grad, handle)
        return self._update_all(tf.raw_ops.ResourceApplyAdam, handle, grad)

    def _apply_sparse(self, grad, var):
        return self._resource_apply_sparse(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad, handle, indices):
        update = self._update_fused if is_fused(handle) else self._update
        return self._with_next_powers(handle, update(handle, grad, indices))

    def _update_all(self, apply_adam, variable, gradient):
        """Updates all rows of an ordinary variable by one op of TensorFlow."""
        dtype = variable.dtype.base_dtype
        names = "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"
        numbers = *(power.read_value() for power in self._powers(variable)), *self._tensors
        update = apply_adam(
            var=handle_of(variable),
            **{name: handle_of(self.get_slot(variable, name)) for name in ("m", "v")},
            **{name: tf.cast(number, dtype) for name, number in zip(names, numbers)},
            grad=gradient,
            use_locking=self._use_locking,
        )
        return self._with_next_powers(variable, update)

    def _update_fused(self, variable, gradient, indices):
        """As _update, by one op."""
        rule, states, numbers = self._rule(variable)
        slots = [self.get_slot(variable, state) for state in states]
        return apply_rule(rule, variable, slots, gradient, indices, numbers)

    def _update(self, variable, gradient, indices):
        """Updates the rows of an ordinary variable at distinct `indices`."""
        dtype = variable.dtype.base_dtype
        learning_rate, beta1, beta2, epsilon = (tf.cast(x, dtype) for x in self._tensors)
        m, v = (self.get_slot(variable, name) for name in ("m", "v"))
        new_m, new_v = beta1 * rows_of(m, indices), beta2 * rows_of(v, indices)
        new_v += (1 - beta2) * gradient**2
        if self._apply_sparse_rmsprop:
            new_m += learning_rate * gradient / tf.sqrt(new_v + epsilon)
            move = new_m
        else:
            new_m += (1 - beta1) * gradient
            move = self._step_size(variable, dtype) * new_m / (tf.sqrt(new_v) + epsilon)
        with tf.control_dependencies([new_m, new_v, move]):
            return tf.group(
                assign_rows(m, new_m, indices, self._use_locking),
                assign_rows(v, new_v, indices, self._use_locking),
                subtract_from_rows(variable, move, indices, self._use_locking),
            )

    def _powers(self, variable):
        return [self.get_slot(variable, name) for name in ("beta1_power", "beta2_power")]

    def _step_size(self, variable, dtype):
        powers = [power.read_value() for power in self._powers(variable)]
        return adam_step_size(self._tensors[0], *powers, dtype=dtype)

    def _with_next_powers(self, variable, update):
        """`update`, followed by the update of the variable's powers."""
        with tf.control_dependencies([update]):
            return tf.group(*[
                power.assign(power.read_value() * beta, use_locking=self._use_locking)
                for power, beta in zip(self._powers(variable), self._tensors[1:3])
            ])  # fmt: skip
