# SPDX-License-Identifier: Apache-2.0
"""`sok.tf.keras.optimizers.Adam`: Keras Adam, fused on tables."""

import tensorflow as tf

from sok_compat.runtime.tf_versions import keras, track_variable
from sok_compat.tables.table import Table
from sok_compat.training import fused_adam


class Adam(keras.optimizers.legacy.Adam):
    """Keras Adam (TF1 and Keras 2), with a fused update of tables. API of SparseOperationKit 1.x.

    The numbers are Keras Adam's: all rows in use decay and move in every step. On tables the cost
    follows the rows in use, not the capacity; on ordinary variables this is Keras Adam itself.
    Works inside OptimizerScope and outside. Arguments: as keras.optimizers.legacy.Adam.
    """

    def _create_slots(self, var_list):
        tables = [v for v in var_list if isinstance(v, Table)]
        if tables and self.amsgrad:
            raise ValueError(f"amsgrad=True is not available for the table {tables[0].table_name}")
        for variable in tables:
            # As get_slot looks it up.
            key = variable._shared_name if variable._in_graph_mode else variable._unique_id
            slots = self._slots.setdefault(key, {})
            if fused_adam.SLOT_NAME not in slots:
                slots[fused_adam.SLOT_NAME] = fused_adam.state_of(variable, self)
                self._weights.append(slots[fused_adam.SLOT_NAME])
                track_variable(slots[fused_adam.SLOT_NAME])
        super()._create_slots([v for v in var_list if not isinstance(v, Table)])

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices, **kwargs):
        if not isinstance(handle, Table):
            return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices, **kwargs)
        return self._apply_to_table(handle, grad, indices)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        if not isinstance(var, Table):
            return super()._resource_apply_dense(grad, var, apply_state)
        return self._apply_to_table(var, *fused_adam.slices_of_rows_in_use(var, grad))

    def _apply_to_table(self, variable, gradient, row_ids):
        step = tf.cast(self.iterations + 1, tf.float32)
        beta1 = tf.identity(self._get_hyper("beta_1", tf.float32))
        beta2 = tf.identity(self._get_hyper("beta_2", tf.float32))
        return fused_adam.apply_adam(
            variable,
            self.get_slot(variable, fused_adam.SLOT_NAME),
            gradient,
            row_ids,
            learning_rate=self._decayed_lr(tf.float32),
            beta1=beta1,
            beta2=beta2,
            epsilon=self.epsilon,
            beta1_power=tf.pow(beta1, step),
            beta2_power=tf.pow(beta2, step),
            is_lazy=False,
        )
