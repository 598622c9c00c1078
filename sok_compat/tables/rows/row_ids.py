# SPDX-License-Identifier: Apache-2.0
"""Row ids: what a graph tells of them, and what keeps their rows."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime.op_library import ops

_GIVE_DISTINCT_ROWS = ("SokAdmitKeys", "SokFindRows", "SokInsertAbsent", "SokRowsInUse")
_FUNCTIONS = ("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While")

_OF_GRADIENT = "_sok_compat_row_ids"  # an attribute of tensors in eager mode


def rows_are_distinct(row_ids: tf.Tensor) -> bool:
    """Whether the graph shows that a gradient's indices contain each row once."""
    return tf.is_symbolic_tensor(row_ids) and giver_of_rows(row_ids).type in _GIVE_DISTINCT_ROWS


def giver_of_rows(row_ids: tf.Tensor) -> tf.Operation:
    """Returns the op that computes the row ids of a gradient, or a superset of them."""
    while row_ids.op.type in ("Identity", "SokKeepRows") or _takes_some(row_ids.op):
        row_ids = row_ids.op.inputs[0]
    return row_ids.op


def mark_as_of_gradient(row_ids: tf.Tensor) -> tf.Tensor:
    """Marks row ids of eager mode for `are_of_gradient`; returns them."""
    if not tf.is_symbolic_tensor(row_ids):
        setattr(row_ids, _OF_GRADIENT, True)
    return row_ids


@tf.autograph.experimental.do_not_convert
def are_of_gradient(indices: Any) -> bool:
    """Whether indices are known to be the row ids of a gradient, or computed from them.

    In eager mode only the indices of the gradient themselves are.
    """
    seen, waiting = set(), [indices]
    while waiting:
        tensor = waiting.pop()
        if not tf.is_symbolic_tensor(tensor):
            if hasattr(tensor, _OF_GRADIENT):
                return True
            continue
        op = tensor.op
        if op.type in (*_GIVE_DISTINCT_ROWS, *_FUNCTIONS):
            return True
        if op not in seen:
            seen.add(op)
            waiting += [x for x in (*op.inputs, *_captured(tensor)) if x.dtype.is_integer]
    return False


def _captured(tensor: tf.Tensor) -> list[tf.Tensor]:
    captures = getattr(tensor.graph, "captures", ()) if tensor.op.type == "Placeholder" else ()
    return [outer for outer, inner in captures if inner is tensor]


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
