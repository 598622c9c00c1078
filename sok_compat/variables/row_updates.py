# SPDX-License-Identifier: Apache-2.0
"""Sparse updates of a table's rows by row id, for optimizers that call methods of the variable."""

import tensorflow as tf


class RowUpdates:
    """`scatter_add`, `scatter_sub` and `scatter_update` of a variable over `tf_handle`.

    Row ids are those of the table's gradients, not keys. Where an id comes twice, both are added
    or subtracted, and one of the two stays in an update.
    """

    def scatter_add(self, sparse_delta, use_locking=False, name=None):
        """Adds tf.IndexedSlices to rows; returns the op, or in eager mode the variable.

        Raises:
          TypeError: sparse_delta is no tf.IndexedSlices.
          tf.errors.InvalidArgumentError: when run: a row id is not in [0, capacity).
        """
        del use_locking
        return self._scatter("add", tf.raw_ops.ResourceScatterAdd, sparse_delta, name)

    def scatter_sub(self, sparse_delta, use_locking=False, name=None):
        """As `scatter_add`, but subtracts."""
        del use_locking
        return self._scatter("sub", tf.raw_ops.ResourceScatterSub, sparse_delta, name)

    def scatter_update(self, sparse_delta, use_locking=False, name=None):
        """As `scatter_add`, but replaces rows."""
        del use_locking
        return self._scatter("update", tf.raw_ops.ResourceScatterUpdate, sparse_delta, name)

    def _scatter(self, method, scatter, sparse_delta, name):
        if not isinstance(sparse_delta, tf.IndexedSlices):
            raise TypeError(
                f"scatter_{method} of the table {self.m_var_name} takes tf.IndexedSlices with row "
                f"ids, as gradients have, got {type(sparse_delta).__name__}"
            )
        with tf.device(self.device):
            op = scatter(
                resource=self.tf_handle,
                indices=sparse_delta.indices,
                updates=tf.cast(sparse_delta.values, tf.float32),
                name=name,
            )
        return self if tf.executing_eagerly() else op
