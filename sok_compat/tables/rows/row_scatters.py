# SPDX-License-Identifier: Apache-2.0
"""Reads and writes of planes by row id, whatever numbers the rows consist of.

Values are float32: rows of two bytes widen when read, and are rounded when written.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime.op_library import ops

_SCATTERS = {
    "add": tf.raw_ops.ResourceScatterAdd,
    "sub": tf.raw_ops.ResourceScatterSub,
    "update": tf.raw_ops.ResourceScatterUpdate,
}
_LEARNING_RATES = {"add": -1.0, "sub": 1.0}


def gather_rows(plane: tf.Variable, row_ids: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns rows float32 [n, width] of a Table, a SlotVariable or an ordinary variable."""
    rows = tf.raw_ops.ResourceGather(
        resource=plane.handle, indices=row_ids, dtype=_dtype_of(plane), name=name
    )
    return tf.cast(rows, tf.float32)


def scatter_rows(
    plane: tf.Variable,
    update: str,
    row_ids: tf.Tensor,
    values: Any,
    name: str | None = None,
    is_trained: bool = False,
) -> tf.Operation | None:
    """Updates rows of a Table, a SlotVariable or an ordinary variable.

    Sums of two bytes are rounded as the table's updates by rules; values that rows are set to, to
    nearest.

    Args:
      update: 'add', 'sub' or 'update'.
      row_ids: integers; repeated ones are all added or subtracted.
      values: float32 [n, width].
      is_trained: whether an optimizer sets the rows, which are then rounded as sums.

    Returns:
      The op; None in eager mode.
    """
    if _dtype_of(plane) == tf.float32:
        return _SCATTERS[update](resource=plane.handle, indices=row_ids, updates=values, name=name)
    values = tf.convert_to_tensor(values, tf.float32)
    if update == "update" and is_trained:
        update, values = "add", values - gather_rows(plane, row_ids)
    if update in _LEARNING_RATES:
        return _by_rule(plane, _LEARNING_RATES[update], row_ids, values, name)
    return _SCATTERS[update](
        resource=plane.handle,
        indices=row_ids,
        updates=to_nearest(values, plane),
        name=name,
    )


def to_nearest(values: tf.Tensor, table: Any) -> tf.Tensor:
    """Returns float32 values as the nearest numbers of a table's row_dtype, the largest for finite
    ones beyond it, of which it warns."""
    dtype = table.row_dtype
    with tf.control_dependencies(warn_of_clamped(values, table)):
        if dtype == tf.float16:
            clipped = tf.clip_by_value(values, dtype.min, dtype.max)
            values = tf.where(tf.math.is_finite(values), clipped, values)
        return tf.cast(values, dtype)


def warn_of_clamped(values: tf.Tensor, table: Any) -> list[tf.Operation]:
    """Returns what logs how many of the float32 values that a table's rows are set to become the
    largest number of its row_dtype."""
    if table.row_dtype != tf.float16:
        return []
    op = ops.sok_warn_of_clamped(values, table_name=table.table_name)
    return [] if op is None else [op]


def _dtype_of(plane):
    return getattr(plane, "row_dtype", tf.float32)


def _by_rule(table, learning_rate, row_ids, values, name):
    """rows -= learning rate * values."""
    row_ids = tf.cast(row_ids, tf.int64)
    values = tf.broadcast_to(values, tf.concat([tf.shape(row_ids), [table.dim]], 0))
    return ops.sok_apply_rule(
        rows=[table.handle],
        states=[],
        tables=[table.table_handle],
        gradients=[tf.reshape(values, [-1, table.dim])],
        row_ids=[tf.reshape(row_ids, [-1])],
        hyperparameters=[tf.constant(learning_rate)],
        hyperparameter_names=["learning_rate"],
        rule="sgd",
        rows_to_update="given",
        row_ids_are_distinct=[False],
        name=name,
    )
