# SPDX-License-Identifier: Apache-2.0
"""Row ids: what a graph tells of them, and what keeps their rows."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from sok_compat.runtime.op_library import ops

if TYPE_CHECKING:
    from sok_compat.tables.table import Table

_GIVE_DISTINCT_ROWS = ("SokAdmitKeys", "SokFindRows", "SokInsertAbsent", "SokRowsInUse")
_FUNCTIONS = ("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While")


def rows_are_distinct(row_ids: tf.Tensor) -> bool:
    """Whether the graph shows that a gradient's indices contain each row once."""
    return tf.is_symbolic_tensor(row_ids) and giver_of_rows(row_ids).type in _GIVE_DISTINCT_ROWS


def giver_of_rows(row_ids: tf.Tensor) -> tf.Operation:
    """Returns the op that computes the row ids of a gradient, or a superset of them."""
    while row_ids.op.type in ("Identity", "SokKeepRows") or _takes_some(row_ids.op):
        row_ids = row_ids.op.inputs[0]
    return row_ids.op


@tf.autograph.experimental.do_not_convert
def are_of_gradient(table: Table, indices: Any) -> bool:
    """Whether indices are known to be the row ids of a gradient of a table.

    In a graph they may be computed from these; in eager mode they are those of the gradient of one
    lookup, as they are.
    """
    if tf.is_symbolic_tensor(indices):
        return _come_from_lookups(indices)
    if not isinstance(indices, tf.Tensor):
        return False
    return indices.shape.num_elements() == 0 or any(map(bool, _checked(table, indices)))


@tf.autograph.experimental.do_not_convert
def checking_rows(variable: Any, gradient: Any) -> AbstractContextManager[Any]:
    """Context of an update by a gradient, which fails if the rows are not those of its keys.

    They are not if the table has been restored, loaded or initialized after the lookup. In a
    session and in one function, the lookup is part of the step.

    Args:
      variable: a Table, or another variable, of which nothing is checked.
      gradient: of the variable.

    Raises:
      tf.errors.FailedPreconditionError: they are not; in a function, when run.
    """
    is_of_table = isinstance(gradient, tf.IndexedSlices) and hasattr(variable, "use_hash_index")
    return tf.control_dependencies(_checked(variable, gradient.indices) if is_of_table else [])


def _checked(table: Table, indices: tf.Tensor) -> list[tf.Tensor]:
    """Returns [whether the row ids are known], a bool tensor, or [] where they need no check."""
    is_eager = tf.compat.v1.executing_eagerly_outside_functions()
    if not is_eager or not table.use_hash_index or indices.dtype != tf.int64:
        return []
    if tf.is_symbolic_tensor(indices) and _come_from_lookups(indices):
        return []
    with tf.device(table.device):
        return [ops.sok_check_rows_found(table.table_handle, indices)]


def _come_from_lookups(indices: tf.Tensor) -> bool:
    seen, waiting = set(), [indices]
    while waiting:
        tensor = waiting.pop()
        if tensor.op.type in (*_GIVE_DISTINCT_ROWS, *_FUNCTIONS):
            return True
        if tensor.op not in seen:
            seen.add(tensor.op)
            waiting += [x for x in tensor.op.inputs if x.dtype.is_integer]
    return False


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
