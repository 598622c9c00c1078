# SPDX-License-Identifier: Apache-2.0
"""Rows of ordinary variables, pooled by bags."""

import tensorflow as tf

import sok_compat.lookup.group_gradients  # noqa: F401  of the ops
from sok_compat.lookup.dense_tables import tables_are_dense
from sok_compat.lookup.pooling import pool_rows
from sok_compat.runtime.op_library import ops


def pooled_rows_of(variable, keys, row_splits, combiner):
    """The rows of a variable, pooled by bags, without a row for each occurrence of a key.

    Args:
      variable: a variable or tensor [rows, dim], of any floats.
      keys: int32 or int64 [n], rows of it.
      row_splits: int64 [num_bags + 1], ascending from 0 to n.
      combiner: 'sum' or 'mean'.

    Returns:
      [num_bags, dim] of the variable's dtype; zeros for bags without keys. Its gradient has one
      slice for each distinct key.

    Raises:
      tf.errors.InvalidArgumentError: when run: a key that is no row.
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
