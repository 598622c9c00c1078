# SPDX-License-Identifier: Apache-2.0
"""Lookups of ordinary variables, pooled as those of tables are, and sequences of rows."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from sok_compat.deeprec.collective.distributed_strategy import is_collective_enabled
from sok_compat.lookup.bags_of_keys import SplitKeys
from sok_compat.lookup.ordinary import pooled_rows_of_group
from sok_compat.lookup.pooling import pool_rows


def pool_ordinary(
    variables: Sequence[tf.Variable | tf.Tensor],
    splits: Sequence[SplitKeys],
    combiners: Sequence[str],
) -> list[tf.Tensor]:
    """Pools rows of ordinary variables, as a lookup pools rows of tables: by 'sum' or 'mean'.

    Weights get gradients, which takes TensorFlow's ops, as do variables that are not float32. So do
    all under the strategy 'collective': there a gradient has a slice for each occurrence of a key,
    so that a norm of gradients is the same on any number of ranks.

    Returns:
      float32 [num_bags, dim] for each; zeros for empty bags.
    """
    others = [
        i
        for i, (variable, one) in enumerate(zip(variables, splits))
        if one.weights is None
        and variable.dtype.base_dtype == tf.float32
        and not is_collective_enabled()
    ]
    pooled = pooled_rows_of_group(
        [variables[i] for i in others],
        [splits[i].keys for i in others],
        [splits[i].row_splits for i in others],
        [combiners[i] for i in others],
    )
    outputs = dict(zip(others, pooled))
    for i, (keys, row_splits, weights) in enumerate(splits):
        if i not in outputs:
            rows = ordinary_rows(variables[i], keys)
            outputs[i] = pool_rows(rows, row_splits, combiners[i], weights)
    return [outputs[i] for i in range(len(splits))]


def ordinary_rows(variable: tf.Variable | tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    """The rows of a floating-point variable at `keys` [n], as float32 [n, dim]."""
    return tf.cast(tf.nn.embedding_lookup(variable, keys), tf.float32)


def rows_of_sequence(
    rows: tf.Tensor, ids: tf.SparseTensor, weights: tf.Tensor | None, dim: int
) -> tf.Tensor:
    """Puts each row [dim], times its weight if there are any, at the position of its id.

    Returns:
      [batch, columns, dim], with zeros where there is no id.
    """
    if weights is not None:
        rows = rows * weights[:, tf.newaxis]
    placed = tf.scatter_nd(ids.indices, rows, tf.concat([ids.dense_shape, [dim]], 0))
    placed.set_shape(tf.TensorShape([None, None]).merge_with(ids.shape).concatenate([dim]))
    return placed
