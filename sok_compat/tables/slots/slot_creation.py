# SPDX-License-Identifier: Apache-2.0
"""Makes the slots of stock optimizers for tables as planes of these tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from sok_compat.runtime.graphs import ancestors
from sok_compat.runtime.tf_versions import constant_value
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.rows.shown_rows import is_showing_some_rows
from sok_compat.tables.slots.slot_names import owner_by_name
from sok_compat.tables.slots.slot_variable import SlotVariable


def make_slot_or_variable(
    tables: Sequence[TableInterface], next_creator: Callable[..., Any], kwargs: dict[str, Any]
) -> tf.Variable:
    """Creates a variable, for tf.variable_creator_scope.

    Returns:
      A SlotVariable for a slot of one of the tables, else the variable of `next_creator`.

    Raises:
      NotImplementedError: a slot of one of the tables does not start as a constant.
    """
    table = owner_by_name(kwargs.get("name") or "", tables)
    if not any(table is ours for ours in tables):  # `in` would compare rows
        table = None
    if table is None or kwargs.get("trainable"):
        return next_creator(**kwargs)
    initial_value = _of_known_shape(kwargs["initial_value"], table)
    if not tf.executing_eagerly() and callable(initial_value):
        initial_value = kwargs["initial_value"] = initial_value()
    fill = _fill_value(initial_value, table)
    if fill is None:
        variable = next_creator(**kwargs)
        if variable.shape == table.shape and not _is_average(initial_value, table):
            raise_for_slot(table, kwargs["name"])
        return variable
    has_one_dimension = isinstance(initial_value, tf.Tensor) and initial_value.shape.rank == 1
    is_vector = has_one_dimension and table.shape.rank == 2
    width = 1 if is_vector else table.dim
    return SlotVariable(table, kwargs["name"], width, float(fill), is_vector)


def make_slot(table: TableInterface, name: str, initial_value: Any) -> SlotVariable:
    """Creates the slot of a table that has `initial_value`.

    Raises:
      NotImplementedError: that is not a constant fill of the table's shape.
    """
    fill = _fill_value(initial_value, table)
    if fill is None:
        raise_for_slot(table, name)
    return SlotVariable(table, name, table.dim, float(fill))


def raise_for_slot(table: TableInterface, name: str) -> NoReturn:
    """Raises NotImplementedError for a slot that cannot be a plane."""
    raise NotImplementedError(
        f"the optimizer's slot {name.rstrip('/')} of the table {table.table_name} must have the "
        "table's shape and start as a constant: rows of keys that come later start as it does, too"
    )


def raise_for_average(table: TableInterface) -> None:
    """Refuses the average that an optimizer with use_ema keeps of a table, as it is made.

    Raises:
      NotImplementedError: the table has a hash index: at the end of training averages replace rows,
        and those of keys that came later would have started from zeros.
    """
    if table.use_hash_index:
        raise NotImplementedError(
            f"use_ema of an optimizer would replace the rows of the table {table.table_name} by "
            "averages, and its keys come later than these begin: make the optimizer without it. "
            f"It works on tables with {table.words.without_index}"
        )


def _is_average(initial_value: Any, table: TableInterface) -> bool:
    """Whether a slot starts as its table, as an average, whose updates raise."""
    if tf.executing_eagerly() or not isinstance(initial_value, tf.Tensor):
        return initial_value is table
    return table.handle.op in ancestors([initial_value.op])


def _of_known_shape(initial_value: Any, table: TableInterface) -> Any:
    """Replaces Keras's function for a slot of unknown shape, of a table without a capacity, by one
    for the rows that the table shows or a single one, as the value is only inspected."""
    is_keras = isinstance(initial_value, functools.partial) and "shape" in initial_value.keywords
    if not is_keras:
        return initial_value
    if tf.TensorShape(initial_value.keywords["shape"]).as_list() != [None, table.dim]:
        return initial_value
    num_rows = tf.compat.dimension_value(table.shape[0]) or 1
    return functools.partial(initial_value, shape=[num_rows, table.dim])


def _fill_value(initial_value: Any, table: TableInterface) -> float | np.float32 | None:
    """Returns the constant initial value of a slot of the table's shape; None for other slots.

    Never computes the value, which has the size of the declared capacity.
    """
    if callable(initial_value):  # in eager mode: inspect its graph
        with tf.Graph().as_default():
            return _fill_value(initial_value(), table)
    if not isinstance(initial_value, tf.Tensor):
        return None
    if not _has_shape_of_rows(initial_value.shape, table) or initial_value.dtype != tf.float32:
        return None
    if tf.is_symbolic_tensor(initial_value):
        return constant_fill(initial_value)
    first = tf.reshape(initial_value, [-1])[0]  # it exists already
    return float(first) if tf.reduce_all(tf.equal(initial_value, first)) else None


def _has_shape_of_rows(shape: tf.TensorShape, table: TableInterface) -> bool:
    """Whether it is the shape that `table` shows (rows/shown_rows.py), or has one number a row.

    DeepRec's variables show the shape of one row.
    """
    if shape.rank == 1 and table.shape.rank == 2:
        return is_showing_some_rows(table) and shape[0] == table.shape[0]
    if tf.compat.dimension_value(table.shape[0]) is None:
        return shape.rank == 2 and shape.is_compatible_with(table.shape)
    return shape == table.shape


def constant_fill(tensor: tf.Tensor) -> np.float32 | None:
    """Returns the float32 that a graph's tensor is filled with, or None."""
    op = tensor.op
    if op.type == "Identity":
        return constant_fill(op.inputs[0])
    if op.type == "Fill":
        value = constant_value(op.inputs[1])
        return None if value is None else np.float32(value)
    if op.type == "Const":
        values = op.get_attr("value").float_val
        return np.float32(values[0]) if len(values) == 1 else None
    if op.type == "Mul":  # TF1's Ftrl: ones times the initial value
        factors: list[Any] = [constant_fill(factor) for factor in op.inputs]
        return None if None in factors else factors[0] * factors[1]
    return None
