# SPDX-License-Identifier: Apache-2.0
"""Reads of a table's rows, as methods of `Table`: those of a variable, by row id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import variable_accessed
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.plane_variable import PlaneVariable
from sok_compat.tables.rows.row_scatters import gather_rows
from sok_compat.tables.rows.row_writes import rows_at
from sok_compat.tables.undefined_methods import raise_undefined

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def numpy(table: TableInterface) -> np.ndarray:
    """value() as an array, in eager mode, of a table without a hash index.

    Raises:
      NotImplementedError: in graph mode, or with a hash index, as Keras's get_weights and .h5
        files would save rows without their keys.
    """
    if table.use_hash_index and tf.executing_eagerly():
        raise NotImplementedError(
            f"numpy() of the table {table.table_name} would return rows without their keys: "
            f"export() returns both, value().numpy() the rows alone, and {table.words.save} "
            "saves tables. If Keras called it: get_weights, .h5 files and EarlyStopping("
            "restore_best_weights=True) work on tables with "
            f"{table.words.without_index} only; model.save_weights with a path without an "
            "ending, and tf.train.Checkpoint, save all"
        )
    return PlaneVariable.numpy(table)


def sparse_read(table: TableInterface, indices: Any, name: str | None = None) -> tf.Tensor:
    """The rows of this rank at `indices`, without a hash index; with one, raises.

    Raises:
      NotImplementedError: with a hash index: rows belong to keys.
      tf.errors.InvalidArgumentError: when run: this rank has no such row.
    """
    if table.shows_rows():
        return PlaneVariable.sparse_read(table, indices, name)
    if table.use_hash_index:
        raise_undefined(table, "sparse_read")
    variable_accessed(table)
    with tf.device(table.device):
        return gather_rows(table, rows_at(table, indices), name)


def gather_nd(table: TableInterface, indices: Any, name: str | None = None) -> tf.Tensor:
    """As a variable's, by `sparse_read`; with a hash index, raises NotImplementedError."""
    if table.use_hash_index:
        raise_undefined(table, "gather_nd")
    indices = tf.convert_to_tensor(indices)
    rows = table.sparse_read(indices[..., 0], name)
    if indices.shape[-1] == 1:
        return rows
    return tf.gather(rows, indices[..., 1], batch_dims=indices.shape.rank - 1)


def deepcopy(table: TableInterface, memo: dict[Any, Any]) -> tf.Variable:
    """In eager mode a tf.Variable with these rows, without a hash index and of one rank."""
    if table.placement.is_spread:
        raise NotImplementedError(
            f"a copy of the table {table.table_name} would have the rows of this rank alone"
        )
    if table.use_hash_index:
        raise_undefined(table, "__deepcopy__")
    return PlaneVariable.__deepcopy__(table, memo)


def getitem(table: TableInterface, slice_spec: Any) -> tf.Tensor:
    """A slice of value(), without a hash index.

    Raises:
      NotImplementedError: with a hash index: rows belong to keys.
    """
    if table.use_hash_index and not table.shows_rows():
        raise NotImplementedError(
            f"a slice of the table {table.table_name} would be of rows in the order in which "
            f"their keys came: rows belong to keys. Look keys up {table.words.look_up}"
        )
    return PlaneVariable.__getitem__(table, slice_spec)


def as_array(
    table: TableInterface, dtype: DTypeLike = None, copy: bool | None = None
) -> np.ndarray:
    """value() for NumPy, which also calls it to put variables into an array."""
    rows = np.asarray(table.value(), dtype)
    return rows.copy() if copy else rows


def initial_value(table: TableInterface) -> tf.Tensor:
    """In a graph, zeros of the rows' shape, as each row starts with its key; in eager mode, as
    of other variables."""
    if not tf.executing_eagerly():
        return tf.zeros([table.capacity or 0, table.dim])
    return PlaneVariable.initial_value.fget(table)


def initialized_value(table: TableInterface) -> tf.Tensor:
    """As value(), but initializes the table first if necessary."""
    if tf.executing_eagerly():
        return table.value()
    with tf.init_scope(), tf.control_dependencies([table.initialize_if_missing()]):
        handle, value = tf.identity(table.handle), read_rows_of(table, table.handle, table.shape)
        # If the value initializes another variable, TensorFlow replaces the handle by output 0
        # of this op.
        value = tf.raw_ops.IdentityN(input=[handle, value])[1]
    value.set_shape(table.shape)
    return value


def read_rows_of(
    table: TableInterface,
    handle: tf.Tensor,
    shape: Sequence[int | None] | tf.TensorShape,
    name: str | None = None,
) -> tf.Tensor:
    """Reads the rows of a handle, which are of this shape."""
    values = ops.sok_read_rows(handle, table.table_handle, name=name)
    values.set_shape(shape)
    return values


@tf.RegisterGradient("SokReadRows")
def _read_rows_gradient(op: tf.Operation, gradient: tf.Tensor) -> tuple[tf.Tensor, None]:
    del op
    return gradient, None
