# SPDX-License-Identifier: Apache-2.0
"""Rows of ordinary variables pooled by TensorFlow's own ops, and rows put where their ids stood."""

import tensorflow as tf

from sok_compat.lookup.pooling import pool_rows


def pool_ordinary(variable, split_keys, combiner):
    """Pools rows of an ordinary variable as a lookup pools those of a table.

    Args:
      variable: a variable or tensor [rows, dim].
      split_keys: a SplitKeys.
      combiner: 'sum' or 'mean'.

    Returns:
      float32 [num_bags, dim]; zeros for bags without keys.
    """
    rows = ordinary_rows(variable, split_keys.keys)
    return pool_rows(rows, split_keys.row_splits, combiner, split_keys.weights)


def ordinary_rows(variable, keys):
    """float32 [n, dim], the rows of a variable of any floats."""
    return tf.cast(tf.nn.embedding_lookup(variable, keys), tf.float32)


def rows_of_sequence(rows, ids, weights, dim):
    """Puts each row where its id stands.

    Args:
      rows: [n, dim], of the n ids.
      ids: SparseTensor [batch, columns].
      weights: [n], or None.
      dim: floats in a row.

    Returns:
      [batch, columns, dim], zeros where there is no id.
    """
    if weights is not None:
        rows = rows * weights[:, tf.newaxis]
    placed = tf.scatter_nd(ids.indices, rows, tf.concat([ids.dense_shape, [dim]], 0))
    placed.set_shape(tf.TensorShape([None, None]).merge_with(ids.shape).concatenate([dim]))
    return placed
