# SPDX-License-Identifier: Apache-2.0
"""`hvd.DistributedOptimizer(backward_passes_per_step=n, sparse_as_dense=True)` on tables without a
capacity: sums over the passes of a step.

Horovod adds gradients up in dense variables of the trained variables' shapes, which these tables do
not have. Their slices are kept one behind another instead. A pass is a lookup of its own: a key
that a filter admits in one is trained by the gradients of that pass and of later ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.ranks.shared_gradients import mark


def keeping_slices(
    compute: Callable[..., Any], is_table: Callable[[tf.Variable], bool]
) -> Callable[..., Any]:
    """Wraps compute_gradients of hvd.DistributedOptimizer for tables and slots."""

    @functools.wraps(compute)
    def compute_gradients(self, *args, **kwargs):
        dense = self._agg_helper
        if dense is None or not dense.sparse_as_dense:
            return compute(self, *args, **kwargs)
        self._agg_helper = _Passes(dense, is_table)
        try:
            return compute(self, *args, **kwargs)
        finally:
            self._agg_helper = dense

    return compute_gradients


class _Passes:
    """Horovod's helper for dense variables, and slices of tables without a capacity."""

    def __init__(self, dense: Any, is_table: Callable[[tf.Variable], bool]) -> None:
        self._dense, self._is_table = dense, is_table

    def compute_gradients(
        self, gradients: Sequence[Any], variables: Sequence[tf.Variable]
    ) -> list[Any]:
        """Returns the gradients; they are sums over the passes after the last one of a step."""
        is_open = [
            self._is_table(variable) and variable.capacity is None and gradient is not None
            for gradient, variable in zip(gradients, variables)
        ]
        if not any(is_open):
            return self._dense.compute_gradients(gradients, variables)
        others = [
            pair for pair, left_out in zip(zip(gradients, variables), is_open) if not left_out
        ]
        if not any(gradient is not None for gradient, _ in others):  # the helper counts with one
            others.append((tf.zeros([1]), _local([1], tf.float32)))
        reduced = self._dense.compute_gradients(*zip(*others))
        # The helper has counted this pass before the slices are applied.
        counted = [gradient for gradient in reduced if gradient is not None]
        with tf.control_dependencies([tf.group(*counted)]):
            tables = [
                self._summed(gradient, variable) if left_out else None
                for gradient, variable, left_out in zip(gradients, variables, is_open)
            ]
        of_others = iter(reduced)
        return [next(of_others) if table is None else table for table in tables]

    def _summed(self, gradient: tf.IndexedSlices, table: tf.Variable) -> Any:
        if table.history is not None and (table.history.evicts or table.history.max_keys):
            raise NotImplementedError(
                f"backward_passes_per_step={self._dense.backward_passes_per_step} keeps gradients "
                f"of the table {table.table_name} by row, but it evicts keys, whose rows others "
                "get: leave out its eviction, or use batches of this many passes"
            )
        num_passes = self._dense.backward_passes_per_step
        row_ids, values = _local([0], tf.int64), _local([0, table.dim], tf.float32)
        place = _local([], tf.int32)
        num_before = place.read_value()
        num_kept = tf.where(tf.equal(num_before, 0), 0, tf.size(row_ids.read_value()))
        all_ids = tf.concat([row_ids.read_value()[:num_kept], gradient.indices], 0)
        all_values = tf.concat([values.read_value()[:num_kept], gradient.values], 0)
        with tf.control_dependencies([all_ids, all_values]):
            kept = [
                row_ids.assign(all_ids, read_value=False),
                values.assign(all_values, read_value=False),
                place.assign((num_before + 1) % num_passes, read_value=False),
            ]
        divisor = num_passes if self._dense.average_aggregated_gradients else 1
        with tf.control_dependencies(kept):
            slices = tf.IndexedSlices(
                all_values / divisor, tf.identity(all_ids), gradient.dense_shape
            )
        return self._dense._allreduce_grads([mark(slices, table)], [table])[0]


def _local(shape: Sequence[int], dtype: tf.DType) -> tf.Variable:
    """A local variable of zeros, whose first dimension may change."""
    with tf.init_scope():  # its initializer waits for no op of a step
        return tf.compat.v1.Variable(
            tf.zeros(shape, dtype),
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
            shape=[None, *shape[1:]] if len(shape) else [],
            validate_shape=False,
            name="backward_passes",
        )
