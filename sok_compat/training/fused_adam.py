# SPDX-License-Identifier: Apache-2.0
"""Adam on tables by one fused op, for all optimizers that offer it."""

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.tables.slots import slot_for
from sok_compat.training.stock_rules import AppliedRule

SLOT_NAME = "Adam"


def state_of(variable, optimizer):
    """The slot of a table that holds m and v side by side: [capacity, 2 * dim], zeros."""
    return slot_for(variable, optimizer, SLOT_NAME, width=2 * variable.dim)


def slices_of_rows_in_use(variable, gradient):
    """(gradients [n, dim], row ids [n]) of a dense gradient [capacity, dim], as of value()."""
    with tf.control_dependencies([gradient]):  # so that this step's keys have come
        row_ids = ops.sok_rows_in_use(variable.table_handle)
    return tf.gather(gradient, row_ids), row_ids


def adam_step_size(learning_rate, beta1_power, beta2_power, dtype=tf.float32):
    """learning_rate * sqrt(1 - beta2_power) / (1 - beta1_power), a scalar. The same for all
    variables of a step: once for these, it is seven ops less for each."""
    learning_rate, beta1_power, beta2_power = (
        tf.cast(x, dtype) for x in (learning_rate, beta1_power, beta2_power)
    )
    return learning_rate * tf.sqrt(1.0 - beta2_power) / (1.0 - beta1_power)


class StepSizeOfTables:
    """Before a tf.compat.v1.train.AdamOptimizer: the step size that all tables of a step share."""

    def _prepare(self):
        super()._prepare()
        self._shared_step_size = None

    def _step_size_of_tables(self):
        if self._shared_step_size is None:
            powers = self._get_beta_accumulators()
            self._shared_step_size = adam_step_size(self._lr_t, *powers)
        return self._shared_step_size


def apply_adam(
    variable,
    state,
    gradient,
    row_ids,
    *,
    step_size,
    beta1,
    beta2,
    epsilon,
    is_lazy,
    use_locking=False,
):
    """One step on the rows of a table; repeated row ids are added up first.

    Args:
      variable: the Table.
      state: its slot from `state_of`.
      gradient: float32 [n, dim].
      row_ids: int64 [n].
      step_size: as of `adam_step_size`; a number or scalar tensor, as the next three.
      beta1: decay of m.
      beta2: decay of v.
      epsilon: added to sqrt(v).
      is_lazy: True: only rows in row_ids decay and move; False: all rows in use.
      use_locking: whether steps that run at once do it one by one.

    Returns:
      The op.
    """
    rule = AppliedRule(
        "adam",
        [state.handle],
        [tf.cast(x, tf.float32) for x in (step_size, beta1, beta2, epsilon)],
        use_locking=use_locking,
        rows_to_update="given" if is_lazy else "in_use",
    )
    with tf.device(variable.device):
        return rule.apply(variable, tf.cast(gradient, tf.float32), tf.cast(row_ids, tf.int64))
