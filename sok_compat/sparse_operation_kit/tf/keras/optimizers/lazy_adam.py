# SPDX-License-Identifier: Apache-2.0
"""`sok.tf.keras.optimizers.LazyAdamOptimizer`: Adam that touches only the rows of a step."""

import tensorflow as tf

from sok_compat.runtime.tf_versions import members
from sok_compat.tables.table import Table
from sok_compat.training import fused_adam
from sok_compat.training.table_updates import UpdatesTables


class LazyAdamOptimizer(
    UpdatesTables, fused_adam.StepSizeOfTables, tf.compat.v1.train.AdamOptimizer
):
    """TF1's Adam with lazy sparse updates: rows without a gradient neither decay nor move.

    API of SparseOperationKit 1.x, where it is a subclass of tf.contrib.opt.LazyAdamOptimizer. On
    tables the update is one fused op. Dense gradients and arguments are those of
    tf.compat.v1.train.AdamOptimizer: learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8,
    use_locking=False, name='Adam'.
    """

    def _create_slots(self, var_list):
        ordinary = [v for v in var_list if not isinstance(v, Table)]
        for variable in var_list:
            if isinstance(variable, Table):
                self._state_of(variable)
        # Like Adam's own, the powers of beta are on the first variable's device.
        first = min(var_list, key=lambda variable: variable.name)
        self._create_non_slot_variable(self._beta1, name="beta1_power", colocate_with=first)
        self._create_non_slot_variable(self._beta2, name="beta2_power", colocate_with=first)
        for variable in ordinary:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)

    def _state_of(self, variable):
        slots = self._slot_dict(fused_adam.SLOT_NAME)
        key = members.slot_key(variable)
        if key not in slots:
            slots[key] = fused_adam.state_of(variable, self)
        return slots[key]

    def _apply_to_table(self, variable, gradient, row_ids):
        return fused_adam.apply_adam(
            variable,
            self._state_of(variable),
            gradient,
            row_ids,
            step_size=self._step_size_of_tables(),
            beta1=self._beta1_t,
            beta2=self._beta2_t,
            epsilon=self._epsilon_t,
            is_lazy=True,
            use_locking=self._use_locking,
        )

    def _apply_sparse_shared(self, grad, var, indices, scatter_add):
        """Updates the rows in `indices`, which are distinct, of an ordinary variable."""
        dtype = var.dtype.base_dtype
        beta1, beta2 = tf.cast(self._beta1_t, dtype), tf.cast(self._beta2_t, dtype)
        powers = self._get_beta_accumulators()
        step_size = fused_adam.adam_step_size(self._lr_t, *powers, dtype=dtype)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        old_m, old_v = tf.gather(m, indices), tf.gather(v, indices)
        new_m = beta1 * old_m + (1 - beta1) * grad
        new_v = beta2 * old_v + (1 - beta2) * tf.square(grad)
        move = step_size * new_m / (tf.sqrt(new_v) + tf.cast(self._epsilon_t, dtype))
        return tf.group(
            scatter_add(m, indices, new_m - old_m),
            scatter_add(v, indices, new_v - old_v),
            scatter_add(var, indices, -move),
        )
