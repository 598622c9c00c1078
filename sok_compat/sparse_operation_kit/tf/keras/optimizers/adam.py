# SPDX-License-Identifier: Apache-2.0
"""`sok.tf.keras.optimizers.Adam`: Keras Adam, fused on tables."""

from sok_compat.runtime.tf_versions import keras_optimizers, members, track_variable
from sok_compat.tables.table import Table
from sok_compat.training import fused_adam
from sok_compat.training.table_updates import slices_of_rows_in_use


class Adam(keras_optimizers.legacy.Adam):
    """Keras Adam (TF1 and Keras 2), with a fused update of tables. API of SparseOperationKit 1.x.

    The numbers are Keras Adam's: all rows in use decay and move in every step. On tables the cost
    is proportional to the rows in use, not to the capacity; on ordinary variables this is Keras
    Adam itself. Works inside and outside of OptimizerScope. Takes the arguments of
    keras.optimizers.legacy.Adam.
    """

    table_type = Table

    def _create_slots(self, var_list):
        tables = [v for v in var_list if isinstance(v, Table)]
        if tables and self.amsgrad:
            raise ValueError(f"amsgrad=True is not available for the table {tables[0].table_name}")
        for variable in tables:
            slots = self._slots.setdefault(members.slot_key_of_keras(variable), {})
            if fused_adam.SLOT_NAME not in slots:
                slots[fused_adam.SLOT_NAME] = fused_adam.state_of(variable, self)
                self._weights.append(slots[fused_adam.SLOT_NAME])
                track_variable(slots[fused_adam.SLOT_NAME])
        super()._create_slots([v for v in var_list if not isinstance(v, Table)])

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices, **kwargs):
        if not isinstance(handle, Table):
            return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices, **kwargs)
        return self._apply_to_table(handle, grad, indices, **kwargs)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        if not isinstance(var, Table):
            return super()._resource_apply_dense(grad, var, apply_state)
        slices = slices_of_rows_in_use(var, grad)
        return self._apply_to_table(var, *slices, apply_state)

    def _apply_to_table(self, variable, gradient, row_ids, apply_state=None):
        """apply_state: Keras's tensors of a step, the same for all variables of a device."""
        where = variable.device, variable.dtype.base_dtype
        of_step = (apply_state or {}).get(where) or self._fallback_apply_state(*where)
        return fused_adam.apply_adam(
            variable,
            self.get_slot(variable, fused_adam.SLOT_NAME),
            gradient,
            row_ids,
            step_size=of_step["lr"],
            beta1=of_step["beta_1_t"],
            beta2=of_step["beta_2_t"],
            epsilon=of_step["epsilon"],
            is_lazy=False,
        )
