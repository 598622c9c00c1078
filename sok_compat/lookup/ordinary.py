# SPDX-License-Identifier: Apache-2.0
"""Pools rows of ordinary variables by bags."""

from __future__ import annotations

import tensorflow as tf

import sok_compat.lookup.group_gradients  # noqa: F401  registers gradients
from sok_compat.lookup.dense_tables import tables_are_dense
from sok_compat.lookup.pooling import pool_rows
from sok_compat.runtime.op_library import ops


def pooled_rows_of(
    variable: tf.Tensor | tf.Variable, keys: tf.Tensor, row_splits: tf.Tensor, combiner: str
) -> tf.Tensor:
    """Returns rows of a variable, pooled by bags, without a copy of the row for each occurrence.

    Args:
      variable: a variable or tensor [rows, dim], of any float dtype.
      keys: int32 or int64 [n], in [0, rows).
      row_splits: int64 [num_bags + 1], ascending from 0 to n.
      combiner: 'sum' or 'mean'.

    Returns:
      [num_bags, dim] of the variable's dtype; zeros for empty bags. Its gradient has one
      slice for each distinct key.

    Raises:
      tf.errors.InvalidArgumentError: when run: a key is out of range.
    """
    if variable.dtype != tf.float32 or tables_are_dense():
        return pool_rows(tf.gather(variable, keys), row_splits, combiner)
    (distinct,), (inverse,) = ops.sok_distinct_keys([keys], N=1)
    rows = tf.gather(variable, distinct)
    none = tf.constant([], tf.float32)
    (pooled,) = ops.sok_pool_received_rows(
        rows=[rows],
        inverse=[inverse],
        row_splits=[row_splits],
        weights=[none],
        factors=[none],
        combiners=[combiner],
    )
    pooled.set_shape([None, variable.shape[1]])
    return pooled
