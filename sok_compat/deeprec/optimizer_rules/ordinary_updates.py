# SPDX-License-Identifier: Apache-2.0
"""Updates of ordinary variables in plain TensorFlow, of some rows or all."""

import tensorflow as tf

from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable


class ActsFirst:
    """Before a tf.compat.v1.train.Optimizer: something is done to a variable before its update, and
    after its gradient, which reads it."""

    def before_update(self, variable, indices):
        """The op that comes first.

        Args:
          variable: an ordinary one, or an EmbeddingVariable.
          indices: of the rows that a sparse gradient moves; None: of all. Those of an ordinary
            variable are distinct.
        """
        raise NotImplementedError

    def _apply_dense(self, grad, var):
        with self._after_first(grad, var, None):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad, handle):
        if isinstance(handle, EmbeddingVariable):
            return super()._resource_apply_dense(grad, handle)
        with self._after_first(grad, handle, None):
            return super()._resource_apply_dense(grad, handle)

    def _apply_sparse(self, grad, var):
        with self._after_first(grad.values, var, grad.indices):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad, handle, indices):
        with self._after_first(grad, handle, indices):
            return super()._resource_apply_sparse(grad, handle, indices)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        apply = super()._resource_apply_sparse_duplicate_indices
        if not isinstance(handle, EmbeddingVariable):
            return apply(grad, handle, indices)
        with self._after_first(grad, handle, indices):
            return apply(grad, handle, indices)

    def _after_first(self, gradient, variable, indices):
        with tf.control_dependencies([gradient]):
            first = self.before_update(variable, indices)
        return tf.control_dependencies([first])


def rows_of(variable, indices):
    """The rows at `indices`; all where it is None."""
    return variable.read_value() if indices is None else tf.gather(variable, indices)


def assign_rows(variable, rows, indices, use_locking):
    """The op that makes these the rows at `indices`, which are distinct; all where it is None."""
    if indices is None:
        return variable.assign(rows, use_locking=use_locking)
    return tf.compat.v1.scatter_update(variable, indices, rows, use_locking=use_locking)


def subtract_from_rows(variable, rows, indices, use_locking):
    """As assign_rows, but subtracts them."""
    if indices is None:
        return variable.assign_sub(rows, use_locking=use_locking)
    return tf.compat.v1.scatter_sub(variable, indices, rows, use_locking=use_locking)
