# SPDX-License-Identifier: Apache-2.0
"""Gradients of tables, as slices, for optimizers of TensorFlow with an update of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.tables.table import Table

if TYPE_CHECKING:
    from tensorflow.compat.v1.train import Optimizer as _OptimizerMixin
else:
    _OptimizerMixin = object  # an optimizer lists that of TensorFlow as its last base


def slices_of_rows_in_use(variable: Table, gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (gradients [n, dim], row ids [n]) of a dense gradient [capacity, dim] of value()."""
    with tf.control_dependencies([gradient]):  # then this step's keys have rows
        row_ids = ops.sok_rows_in_use(variable.table_handle)
    return tf.gather(gradient, row_ids), row_ids


class UpdatesTables(_OptimizerMixin):
    """Base class, before an optimizer of tf.compat.v1.train: updates tables by
    `_apply_to_table(variable, gradient, row_ids)`, and other variables as that optimizer does."""

    table_type = Table

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        if not isinstance(handle, Table):
            return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices)
        return self._apply_to_table(handle, grad, indices)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        if not isinstance(var, Table):
            return super()._resource_apply_dense(grad, var)
        return self._apply_to_table(var, *slices_of_rows_in_use(var, grad))
