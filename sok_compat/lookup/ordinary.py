# SPDX-License-Identifier: Apache-2.0
"""Pools rows of ordinary variables by bags."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

import sok_compat.lookup.gradients.of_groups  # noqa: F401  registers gradients
from sok_compat.lookup.dense_tables import tables_are_dense
from sok_compat.lookup.pooling import pool_rows
from sok_compat.runtime.op_library import ops


def pooled_rows_of_group(
    variables: Sequence[tf.Tensor | tf.Variable],
    keys: Sequence[tf.Tensor],
    row_splits: Sequence[tf.Tensor],
    combiners: Sequence[str],
) -> list[tf.Tensor]:
    """Returns rows of variables [rows, dim] of float dtypes, pooled by bags, without a copy of the
    row for each occurrence.

    One op finds the distinct keys of all float32 variables, and one pools their rows.

    Args:
      keys: for each, int32 or int64 [n], in [0, rows).
      row_splits: for each, int64 [num_bags + 1], ascending from 0 to n.
      combiners: for each, 'sum' or 'mean'.

    Returns:
      For each, [num_bags, dim] of the variable's dtype; zeros for empty bags. Its gradient has one
      slice for each distinct key.

    Raises:
      tf.errors.InvalidArgumentError: when run: a key is out of range.
    """
    are_dense = tables_are_dense()
    outputs = {
        i: pool_rows(tf.gather(variable, keys[i]), row_splits[i], combiners[i])
        for i, variable in enumerate(variables)
        if variable.dtype.base_dtype != tf.float32 or are_dense
    }
    grouped = [i for i in range(len(variables)) if i not in outputs]
    if grouped:
        distinct, inverse = ops.sok_distinct_keys([keys[i] for i in grouped], N=len(grouped))
        none = [tf.constant([], tf.float32)] * len(grouped)
        pooled = ops.sok_pool_received_rows(
            rows=[tf.gather(variables[i], own) for i, own in zip(grouped, distinct)],
            inverse=inverse,
            row_splits=[row_splits[i] for i in grouped],
            weights=none,
            factors=none,
            combiners=[combiners[i] for i in grouped],
        )
        outputs.update(zip(grouped, pooled))
    for i, variable in enumerate(variables):
        outputs[i].set_shape([None, variable.shape[1]])
    return [outputs[i] for i in range(len(variables))]
