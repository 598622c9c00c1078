# SPDX-License-Identifier: Apache-2.0
"""Row ids: what a graph tells of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime.graphs import ancestors, captured_as, functions_of, is_function, outside
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import constant_value
from sok_compat.tables.interface import TableInterface

_GIVE_DISTINCT_ROWS = ("SokAdmitKeys", "SokFindRows", "SokInsertAbsent", "SokRowsInUse")
_FUNCTIONS = (
    *("PartitionedCall", "StatefulPartitionedCall"),
    *("If", "StatelessIf", "While", "StatelessWhile"),
)
_TAKE_FROM_ALL = ("Merge", "Pack")  # ops whose outputs consist of elements of all inputs
_TAKE_FROM_FIRST = (
    *("Identity", "SokKeepRows", "Cast", "Reshape", "Squeeze", "ExpandDims", "Switch", "Exit"),
    *("GatherV2", "GatherNd", "StridedSlice", "Slice", "Unique", "UniqueV2", "DynamicPartition"),
    "PlaceholderWithDefault",  # as of micro batches, which feed those of earlier ones
)
_MAKE_NUMBERS = (
    *("Range", "IteratorGetNext", "ArgMax", "ArgMin"),
    *("Add", "AddV2", "Sub", "Mul", "FloorDiv", "FloorMod", "Mod", "Maximum", "Minimum", "Neg"),
)
_KEEP_NUMBERS = {"ReadVariableOp", "ResourceGather", "IteratorGetNext", "PyFunc", "EagerPyFunc"}


def rows_are_distinct(row_ids: tf.Tensor) -> bool:
    """Whether the graph shows that a gradient's indices contain each row once."""
    return tf.is_symbolic_tensor(row_ids) and giver_of_rows(row_ids).type in _GIVE_DISTINCT_ROWS


@tf.autograph.experimental.do_not_convert
def giver_of_rows(row_ids: tf.Tensor) -> tf.Operation:
    """Returns the op that computes the row ids of a gradient, or a superset of them."""
    *_, op = ancestors([row_ids.op], _superset)
    return op


def are_of_gradient(table: TableInterface, indices: Any) -> bool:
    """Whether a graph shows that indices are row ids of a table's gradient, or some of them, in
    another order or shape."""
    return tf.is_symbolic_tensor(indices) and all(
        _finds_rows(table, op) for op in _sources(indices)
    )


@tf.autograph.experimental.do_not_convert
def checked_row_ids(table: TableInterface, indices: Any) -> tf.Tensor:
    """Returns the indices of a gradient in a graph, which are to be row ids of a table.

    Those of unknown origin, as of a variable or Horovod, are checked when run.

    Raises:
      NotImplementedError: an index is a constant, fed, an element of a dataset, computed from other
        numbers, or what a lookup in the table takes for a key.
      tf.errors.InvalidArgumentError: when run: the table has no such row.
    """
    sources = _sources(indices) if tf.is_symbolic_tensor(indices) else []
    unknown = [op for op in sources if not _finds_rows(table, op)]
    if not sources or any(_makes_numbers(op) or op in _makers_of_keys(table) for op in unknown):
        raise NotImplementedError(
            f"the gradient of the table {table.table_name} has indices that are not a lookup's, "
            "but rows belong to keys: apply the gradient of a lookup of these keys, or use "
            f"{table.words.set_rows} to set rows"
        )
    if not unknown:
        return indices
    with tf.device(table.device):
        check = ops.sok_check_rows_in_use(table.table_handle, tf.cast(indices, tf.int64))
        with tf.control_dependencies([check]):
            return tf.identity(indices)


@tf.autograph.experimental.do_not_convert
def is_made_in_function(dense: Any) -> bool:
    """Whether a graph shows that a dense gradient was made by the function that applies it."""
    return all(map(_is_made_here, ancestors([dense], _has_numbers_of)))


def _is_made_here(tensor: Any) -> bool:
    """Whether numbers of a dense gradient come from tensors behind this one, or begin with it: as
    slices of a lookup, a read of all rows, or one number for all rows."""
    if not tf.is_symbolic_tensor(tensor):
        return False
    op = tensor.op
    if op.type in _FUNCTIONS:
        types = {node.op for function in functions_of(op) for node in function.node_def}
        return "SokRowsToMakeDense" in types and types.isdisjoint(_KEEP_NUMBERS)
    if tensor.shape.num_elements() == 1 and op.type != "ReadVariableOp":
        return True
    if op.type == "Const":  # one of TensorFlow's copies of a small tensor, perhaps
        return not constant_value(tensor).any()
    return bool(_has_numbers_of(tensor)) or op.type in ("SokReadRows", "Fill") or _adds_slices(op)


def _has_numbers_of(tensor: Any) -> list[tf.Tensor]:
    """The tensors from which one may have numbers of a dense gradient."""
    if not tf.is_symbolic_tensor(tensor) or _adds_slices(tensor.op):
        return []
    if tensor.op.type == "IdentityN":  # of functions with a gradient of their own
        return [tensor.op.inputs[tensor.value_index]]
    inputs = [x for x in tensor.op.inputs if x.dtype.is_floating and x.shape.rank != 0]
    if tensor.op.type in _FUNCTIONS:
        return [x for x in inputs if x.shape.is_compatible_with(tensor.shape)]
    return captured_as(tensor) or inputs


def _adds_slices(op: tf.Operation) -> bool:
    return op.type == "UnsortedSegmentSum" and op.inputs[1].op.type == "SokRowsToMakeDense"


def _makes_numbers(op: tf.Operation) -> bool:
    """Whether an op's outputs are a script's numbers; constants without elements are not."""
    if op.type == "Const":
        return op.outputs[0].shape.num_elements() != 0
    is_fed = op.type == "Placeholder" and not is_function(op.graph)
    return is_fed or op.type in _MAKE_NUMBERS


def _makers_of_keys(table: TableInterface) -> set[tf.Operation]:
    """Returns the ops from which lookups of a table in its graph have their keys."""
    lookups = [op for op in table.table_handle.graph.get_operations() if op.type == "SokFindRows"]
    keys = [
        each.op
        for op in lookups
        for handle, each in zip(op.inputs, op.inputs[op.get_attr("N") :])
        if outside(handle)[-1] is table.table_handle
    ]
    return set(ancestors(keys))


def _sources(indices: tf.Tensor) -> list[tf.Operation]:
    """Returns the ops of a graph whose outputs have the numbers in `indices`."""
    return [op for op in ancestors([indices.op], _taken_from) if not _taken_from(op)]


def _taken_from(op: tf.Operation) -> list[tf.Operation]:
    """Returns the ops whose outputs have the numbers in an op's output; [] if it makes them."""
    if op.type == "ConcatV2":
        return [tensor.op for tensor in op.inputs[:-1]]
    if op.type in _TAKE_FROM_ALL:
        return [tensor.op for tensor in op.inputs]
    return [op.inputs[0].op] if op.type in _TAKE_FROM_FIRST else []


def _superset(op: tf.Operation) -> list[tf.Operation]:
    """[the op whose output has all row ids that are in an op's output], or []."""
    is_one = op.type in ("Identity", "SokKeepRows") or _takes_some(op)
    return [op.inputs[0].op] if is_one else []


def _finds_rows(table: TableInterface, op: tf.Operation) -> bool:
    """Whether an op gives row ids of a table.

    Of a function only, whether a lookup is in it, or in one whose outputs it takes: gradients.
    """
    if op.type in _GIVE_DISTINCT_ROWS:
        return any(outside(each)[-1] is table.table_handle for each in op.inputs)
    calls = ancestors([op], lambda call: [x.op for x in call.inputs if x.op.type in _FUNCTIONS])
    return op.type in _FUNCTIONS and any(
        node.op in _GIVE_DISTINCT_ROWS
        for call in calls
        for function in functions_of(call)
        for node in function.node_def
    )


def _takes_some(op: tf.Operation) -> bool:
    """Whether it is tf.gather(row ids, tf.where(...)[:, 0])."""
    if op.type != "GatherV2" or op.inputs[1].op.type != "StridedSlice":
        return False
    return op.inputs[1].op.inputs[0].op.type == "Where"
