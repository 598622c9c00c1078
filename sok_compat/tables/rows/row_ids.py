# SPDX-License-Identifier: Apache-2.0
"""Row ids: what a graph tells of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime.graphs import (
    CALLS_OF_FUNCTIONS,
    CALLS_OF_PYTHON,
    ancestors,
    functions_of,
    is_function,
    numbers_from,
    outside,
    state_of,
)
from sok_compat.runtime.op_library import ops
from sok_compat.tables.interface import TableInterface

_GIVE_DISTINCT_ROWS = (
    *("SokAdmitKeys", "SokFindRows", "SokInsertAbsent", "SokInsertRows", "SokRowsInUse"),
)
_OPAQUE = (*CALLS_OF_PYTHON, *CALLS_OF_FUNCTIONS)
_REFERENCES = [tf.as_dtype(f"{kind}_ref") for kind in ("int32", "int64", "string")]
_BRING = (  # ops that make numbers of their own, of row ids too, or take them from outside
    "PlaceholderWithDefault",
    *("Add", "AddN", "AddV2", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Cumprod", "Cumsum"),
    *("FloorDiv", "FloorMod", "LeftShift", "Mul", "Pow", "Prod", "RightShift", "SegmentSum"),
    *("Square", "SquaredDifference", "Sub", "Sum", "TruncateDiv", "TruncateMod"),
    *("SegmentProd", "UnsortedSegmentProd", "UnsortedSegmentSum"),
)


def rows_are_distinct(row_ids: tf.Tensor) -> bool:
    """Whether the graph shows that a gradient's indices contain each row once."""
    return tf.is_symbolic_tensor(row_ids) and giver_of_rows(row_ids).type in _GIVE_DISTINCT_ROWS


@tf.autograph.experimental.do_not_convert
def giver_of_rows(row_ids: tf.Tensor) -> tf.Operation:
    """Returns the op that computes the row ids of a gradient, or a superset of them."""
    *_, op = ancestors([row_ids.op], _superset)
    return op


def _superset(op: tf.Operation) -> list[tf.Operation]:
    """[the op whose output has all row ids that are in an op's output], or []."""
    is_one = op.type in ("Identity", "SokKeepRows") or _takes_some(op)
    return [op.inputs[0].op] if is_one else []


def _takes_some(op: tf.Operation) -> bool:
    """Whether it is tf.gather(row ids, tf.where(...)[:, 0])."""
    if op.type != "GatherV2" or op.inputs[1].op.type != "StridedSlice":
        return False
    return op.inputs[1].op.inputs[0].op.type == "Where"


@tf.autograph.experimental.do_not_convert
def row_ids_of_step(table: TableInterface, ids: Any) -> tf.Tensor | None:
    """Returns the row ids of a gradient's indices if the graph shows that a lookup of the table in
    the same step gave them, as they are or joined; else None."""
    if not tf.is_symbolic_tensor(ids):
        return None
    *_, ids = outside(ids)
    if not tf.is_symbolic_tensor(ids):
        return None
    if ids.op.type == "ConcatV2":
        parts = [row_ids_of_step(table, part) for part in ids.op.inputs[:-1]]
        return None if any(part is None for part in parts) else tf.concat(parts, 0)
    if ids.op.type == "SokAddGeneration" and _are_found_in(table, ids.op.inputs[1]):
        return ids.op.inputs[0]
    return None


def _are_found_in(table: TableInterface, row_ids: tf.Tensor) -> bool:
    """Whether an op that finds rows has found row ids in a table."""
    *_, found = ancestors([row_ids], _found)
    if not tf.is_symbolic_tensor(found) or found.op.type not in _GIVE_DISTINCT_ROWS:
        return False
    return outside(found.op.inputs[found.value_index])[-1] is table.table_handle


def _found(row_ids: Any) -> list[Any]:
    is_kept = tf.is_symbolic_tensor(row_ids) and row_ids.op.type == "SokKeepRows"
    return [row_ids.op.inputs[1]] if is_kept else outside(row_ids)[1:2]


@tf.autograph.experimental.do_not_convert
def checked_row_ids(table: TableInterface, indices: Any) -> tf.Tensor:
    """Returns the indices of a gradient in a graph, which are to be row ids of a table.

    All numbers from which the graph makes them must be row ids of the table's lookups, and sessions
    then refuse to be fed others. What a variable or a Python function keeps is checked when run.

    Raises:
      NotImplementedError: there are other numbers among them, or in what they are computed from:
        constants, keys, what a script feeds.
      tf.errors.InvalidArgumentError: when run: the table has no such row.
    """
    indices = tf.convert_to_tensor(indices)
    visited = list(ancestors([indices], _made_of)) if tf.is_symbolic_tensor(indices) else []
    unknown = [each for each in visited if not (_made_of(each) or _is_found_in(table, each))]
    if not (visited and all(map(_is_kept, unknown))):
        raise NotImplementedError(
            f"the gradient of the table {table.table_name} has indices that are not a lookup's, "
            "but rows belong to keys: apply the gradient of a lookup of these keys, or use "
            f"{table.words.set_rows} to set rows"
        )
    for each in visited:
        if each.op.name not in state_of(each.graph).fed_row_ids:
            each.graph.prevent_feeding(each)
    if not unknown and not any(each.op.type in _OPAQUE and _made_of(each) for each in visited):
        return indices
    with tf.device(table.device):
        check = ops.sok_check_rows_in_use(table.table_handle, tf.cast(indices, tf.int64))
        with tf.control_dependencies([check]):
            return tf.identity(indices)


def _made_of(tensor: tf.Tensor) -> list[tf.Tensor]:
    """The tensors from whose numbers an op makes those of integers; [] if it brings them."""
    op = tensor.op
    brings = op.type in (*_GIVE_DISTINCT_ROWS, *_BRING) or _calls_lookup(op)
    return [] if brings or tensor.shape.rank == 0 else numbers_from(tensor)


def _is_found_in(table: TableInterface, tensor: tf.Tensor) -> bool:
    """Whether a lookup in the table found these row ids, now or in a step that this package feeds;
    or there are none."""
    op = tensor.op
    has_none = op.type == "Const" and tensor.shape.num_elements() == 0
    if has_none or op.name in state_of(op.graph).fed_row_ids:
        return True
    return _calls_lookup(op) or _are_found_in(table, tensor)


def _calls_lookup(op: tf.Operation) -> bool:
    """Whether a lookup is in a function that an op calls, or in one whose outputs it takes:
    gradients."""
    if op.type not in CALLS_OF_FUNCTIONS:
        return False
    calls = ancestors(
        [op], lambda call: [x.op for x in call.inputs if x.op.type in CALLS_OF_FUNCTIONS]
    )
    return any(
        node.op in _GIVE_DISTINCT_ROWS
        for call in calls
        for function in functions_of(call)
        for node in function.node_def
    )


def _is_kept(tensor: tf.Tensor) -> bool:
    """Whether numbers come out of a variable or the like, a Python function or an argument, and not
    from what feeds a script with data."""
    op = tensor.op
    if op.type == "Placeholder":
        return is_function(op.graph)
    if "Iterator" in op.type or "Queue" in op.type:
        return False
    handles = [x for x in (tensor, *op.inputs) if x.dtype in (tf.resource, *_REFERENCES)]
    return bool(handles) or op.type in CALLS_OF_PYTHON
