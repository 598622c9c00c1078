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
_FUNCTIONS = (
    *("PartitionedCall", "StatefulPartitionedCall"),
    *("If", "StatelessIf", "While", "StatelessWhile"),
)
_TAKE_FROM_ALL = ("Merge", "Pack")  # ops whose outputs consist of elements of all inputs
_TAKE_FROM_FIRST = (
    *("Identity", "SokKeepRows", "Cast", "Reshape", "Squeeze", "ExpandDims", "Switch", "Exit"),
    *("GatherV2", "GatherNd", "StridedSlice", "Slice", "Unique", "UniqueV2", "DynamicPartition"),
)


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

    In a graph they may be some of these, in another order or shape; in eager mode they are those of
    the gradient of one lookup, as they are.
    """
    if tf.is_symbolic_tensor(indices):
        return all(_finds_rows(table, op) for op in _sources(indices))
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
    if tf.is_symbolic_tensor(indices):
        known = (*_GIVE_DISTINCT_ROWS, *_FUNCTIONS)
        if all(op.type in known for op in _sources(indices)):
            return []
    with tf.device(table.device):
        return [ops.sok_check_rows_found(table.table_handle, indices)]


def _sources(indices: tf.Tensor) -> set[tf.Operation]:
    """Returns the ops of a graph whose outputs have the numbers in `indices`."""
    seen, sources, waiting = set(), set(), [indices]
    while waiting:
        op = waiting.pop().op
        if op in seen:
            continue
        seen.add(op)
        if op.type == "ConcatV2":
            waiting += op.inputs[:-1]
        elif op.type in _TAKE_FROM_ALL:
            waiting += op.inputs
        elif op.type in _TAKE_FROM_FIRST:
            waiting.append(op.inputs[0])
        else:
            sources.add(op)
    return sources


def _finds_rows(table: Table, op: tf.Operation) -> bool:
    """Whether an op gives row ids of a table.

    Of a function only, whether a lookup is in it, or in one whose outputs it takes: gradients.
    """
    if op.type in _GIVE_DISTINCT_ROWS:
        return any(_outside(each) is table.table_handle for each in op.inputs)
    if op.type not in _FUNCTIONS:
        return False
    functions = {f.signature.name: f for f in op.graph.as_graph_def().library.function}
    waiting, seen = [op.node_def], set[str]()
    while waiting:
        for value in waiting.pop().attr.values():
            for name in (value.func.name, *(f.name for f in value.list.func)):
                if name in functions.keys() - seen:
                    seen.add(name)
                    waiting += functions[name].node_def
    if any(node.op in _GIVE_DISTINCT_ROWS for name in seen for node in functions[name].node_def):
        return True
    return any(_finds_rows(table, each.op) for each in op.inputs if each.op.type in _FUNCTIONS)


def _outside(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor outside of the functions and loops that have captured it as this one."""
    while tf.is_symbolic_tensor(tensor):
        if tensor.op.type in ("Identity", "Enter", "Switch"):
            tensor = tensor.op.inputs[0]
            continue
        captures = getattr(tensor.graph, "captures", ())
        outer = [outer for outer, inner in captures if inner is tensor]
        if not outer:
            break
        (tensor,) = outer
    return tensor


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
