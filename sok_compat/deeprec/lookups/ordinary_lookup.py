# SPDX-License-Identifier: Apache-2.0
"""Lookups of ordinary variables by TensorFlow's own ops, and sequences of rows."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.lookup.bags_of_keys import SplitKeys
from sok_compat.lookup.pooling import pool_rows


def pool_ordinary(
    variable: tf.Variable | tf.Tensor, split_keys: SplitKeys, combiner: str
) -> tf.Tensor:
    """Pools rows of an ordinary variable, as a lookup pools rows of a table.

    Args:
      variable: a variable or tensor [rows, dim].
      split_keys: a SplitKeys.
      combiner: 'sum' or 'mean'.

    Returns:
      float32 [num_bags, dim]; zeros for empty bags.
    """
    rows = ordinary_rows(variable, split_keys.keys)
    return pool_rows(rows, split_keys.row_splits, combiner, split_keys.weights)


def ordinary_rows(variable: tf.Variable | tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    """The rows of a floating-point variable at `keys` [n], as float32 [n, dim]."""
    return tf.cast(tf.nn.embedding_lookup(variable, keys), tf.float32)


def rows_of_sequence(
    rows: tf.Tensor, ids: tf.SparseTensor, weights: tf.Tensor | None, dim: int
) -> tf.Tensor:
    """Puts each row at the position of its id.

    Args:
      rows: [n, dim], of the n ids.
      ids: SparseTensor [batch, columns].
      weights: [n], or None.
      dim: floats in a row.

    Returns:
      [batch, columns, dim], with zeros where there is no id.
    """
    if weights is not None:
        rows = rows * weights[:, tf.newaxis]
    placed = tf.scatter_nd(ids.indices, rows, tf.concat([ids.dense_shape, [dim]], 0))
    placed.set_shape(tf.TensorShape([None, None]).merge_with(ids.shape).concatenate([dim]))
    return placed
