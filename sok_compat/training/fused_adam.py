# SPDX-License-Identifier: Apache-2.0
"""Adam on tables as one fused op, for all optimizers that offer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from sok_compat.tables.slots.registry import slot_for
from sok_compat.training.stock_rules import AppliedRule

if TYPE_CHECKING:
    from tensorflow.compat.v1.train import AdamOptimizer as _AdamMixin

    from sok_compat.tables.slots.slot_variable import SlotVariable
    from sok_compat.tables.table import Table
else:
    _AdamMixin = object  # an optimizer lists AdamOptimizer itself as its last base


SLOT_NAME = "Adam"


def state_of(variable: Table, optimizer: Any) -> SlotVariable:
    """Returns the table's slot that holds m and v side by side: [capacity, 2 * dim], zeros."""
    return slot_for(variable, optimizer, SLOT_NAME, width=2 * variable.dim)


def adam_step_size(
    learning_rate: float | tf.Tensor,
    beta1_power: float | tf.Tensor,
    beta2_power: float | tf.Tensor,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """Returns learning_rate * sqrt(1 - beta2_power) / (1 - beta1_power), a scalar.

    All variables of a step can share it, which saves seven ops for each.
    """
    learning_rate, beta1_power, beta2_power = (
        tf.cast(x, dtype) for x in (learning_rate, beta1_power, beta2_power)
    )
    return learning_rate * tf.sqrt(1.0 - beta2_power) / (1.0 - beta1_power)


class StepSizeOfTables(_AdamMixin):
    """Base class, before tf.compat.v1.train.AdamOptimizer: a step size shared by all tables."""

    def _prepare(self) -> None:
        super()._prepare()
        self._shared_step_size: tf.Tensor = None

    def _step_size_of_tables(self) -> tf.Tensor:
        if self._shared_step_size is None:
            powers = self._get_beta_accumulators()
            self._shared_step_size = adam_step_size(self._lr_t, *powers)
        return self._shared_step_size


def apply_adam(
    variable: Table,
    state: SlotVariable,
    gradient: tf.Tensor,
    row_ids: tf.Tensor,
    *,
    step_size: float | tf.Tensor,
    beta1: float | tf.Tensor,
    beta2: float | tf.Tensor,
    epsilon: float | tf.Tensor,
    is_lazy: bool,
    use_locking: bool = False,
) -> tf.Operation:
    """Returns the op of one step on rows of a table; gradients of repeated row ids are added up
    first.

    Args:
      state: its slot from `state_of`.
      row_ids: int64 [n]; while the table shows some rows (shown_rows.py), places among these, and
        then only these rows are updated.
      step_size: as of `adam_step_size`.
      is_lazy: whether to update only the rows in row_ids; False: all rows in use.
      use_locking: whether concurrent steps update the table one by one.
    """
    shown = variable.shown_row_ids()
    if shown is not None:
        row_ids, is_lazy = tf.gather(shown, row_ids), True
    numbers = {"step_size": step_size, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    rule = AppliedRule(
        "adam",
        [state.handle],
        {name: tf.cast(number, tf.float32) for name, number in numbers.items()},
        use_locking=use_locking,
        rows_to_update="given" if is_lazy else "in_use",
    )
    with tf.device(variable.device):
        return rule.apply(variable, tf.cast(gradient, tf.float32), tf.cast(row_ids, tf.int64))
