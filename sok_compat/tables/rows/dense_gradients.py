# SPDX-License-Identifier: Apache-2.0
"""Dense gradients of tables: what the graph of a function tells of the numbers in them."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from sok_compat.runtime.graphs import (
    CALLS_OF_FUNCTIONS,
    CALLS_OF_PYTHON,
    ancestors,
    functions_of,
    numbers_from,
)
from sok_compat.runtime.tf_versions import constant_value
from sok_compat.tables.interface import TableInterface

_BRING_NUMBERS = {"ReadVariableOp", "ResourceGather", "IteratorGetNext", *CALLS_OF_PYTHON}


@tf.autograph.experimental.do_not_convert
def is_made_in_function(table: TableInterface, dense: Any) -> bool:
    """Whether a graph shows that the function which applies a dense gradient of a table made it.

    Its rows are then those of this step: nothing that has a number for each row of the table comes
    from outside of the function, as from a variable, an argument, a dataset or Python.
    """
    behind = functools.partial(_with_numbers_of, table)
    return tf.is_tensor(dense) and all(
        _is_made_here(table, tensor) for tensor in ancestors([dense], behind)
    )


def _is_made_here(table: TableInterface, tensor: Any) -> bool:
    """Whether a tensor's numbers of rows, if any, begin with it or are of those behind it."""
    if _is_small(table, tensor):
        return True
    if not tf.is_symbolic_tensor(tensor):
        return False
    op = tensor.op
    if op.type in CALLS_OF_FUNCTIONS:
        types = {node.op for function in functions_of(op) for node in function.node_def}
        return "SokRowsToMakeDense" in types and types.isdisjoint(_BRING_NUMBERS)
    if op.type == "Const":  # one of TensorFlow's copies of a small tensor, perhaps
        value = constant_value(tensor)
        return bool((value == value.flat[0]).all())
    if _is_of_rows(op) or (_with_numbers_of(table, tensor) and op.type not in CALLS_OF_PYTHON):
        return True
    has_handle = any(x.dtype in (tf.resource, tf.string) for x in op.inputs)
    return bool(op.inputs) and not has_handle and op.type not in CALLS_OF_PYTHON


def _with_numbers_of(table: TableInterface, tensor: Any) -> list[tf.Tensor]:
    """The tensors behind one from which it may have numbers of rows."""
    is_symbolic = tf.is_symbolic_tensor(tensor)
    if not is_symbolic or _is_small(table, tensor) or _is_of_rows(tensor.op):
        return []
    inputs = numbers_from(tensor) or list(tensor.op.inputs)
    if tensor.op.type in CALLS_OF_FUNCTIONS:
        inputs = [x for x in inputs if x.shape.is_compatible_with(tensor.shape)]
    return [x for x in inputs if not _is_small(table, x)]


def _is_small(table: TableInterface, tensor: Any) -> bool:
    """Whether a tensor has no number for each row: no axis as long as the table, and fewer numbers
    than it; without a capacity, one for each column or less."""
    size, whole = tensor.shape.num_elements(), table.shape.num_elements()
    if size is None:
        return False
    if whole is None:
        return tensor.shape.rank < 2 and size <= table.dim
    return table.capacity not in tensor.shape and size < whole


def _is_of_rows(op: tf.Operation) -> bool:
    """Whether an op gives numbers for the rows that the table has now: slices that it adds up, or
    all rows."""
    adds_slices = op.type == "UnsortedSegmentSum" and op.inputs[1].op.type == "SokRowsToMakeDense"
    return adds_slices or op.type == "SokReadRows"
