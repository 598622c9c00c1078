# SPDX-License-Identifier: Apache-2.0
"""Row ids: what a graph tells of them, and what keeps their rows."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.runtime.op_library import ops

_GIVE_DISTINCT_ROWS = ("SokAdmitKeys", "SokFindRows", "SokInsertAbsent", "SokRowsInUse")


def rows_are_distinct(row_ids: tf.Tensor) -> bool:
    """Whether the graph shows that a gradient's indices contain each row once."""
    return tf.is_symbolic_tensor(row_ids) and giver_of_rows(row_ids).type in _GIVE_DISTINCT_ROWS


def giver_of_rows(row_ids: tf.Tensor) -> tf.Operation:
    """Returns the op that computes the row ids of a gradient, or a superset of them."""
    while row_ids.op.type in ("Identity", "SokKeepRows") or _takes_some(row_ids.op):
        row_ids = row_ids.op.inputs[0]
    return row_ids.op


def kept_as(row_ids: tf.Tensor, *found: tf.Tensor) -> tf.Tensor:
    """Returns row ids; as long as they live, tables reuse no row that one of `found` keeps.

    In a session a step keeps its rows until it ends, so they are returned as they are.

    Args:
      row_ids: int64 [n].
      *found: row ids of ops that find rows.
    """
    if tf.compat.v1.executing_eagerly_outside_functions():
        for each in found:
            row_ids = ops.sok_keep_rows(row_ids, each)
    return row_ids


def _takes_some(op: tf.Operation) -> bool:
    """Whether it is tf.gather(row ids, tf.where(...)[:, 0])."""
    if op.type != "GatherV2" or op.inputs[1].op.type != "StridedSlice":
        return False
    return op.inputs[1].op.inputs[0].op.type == "Where"
