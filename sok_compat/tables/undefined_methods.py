# SPDX-License-Identifier: Apache-2.0
"""Methods of tf.Variable that raise for a table: those by index, and copies without keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import tensorflow as tf

from sok_compat.tables.interface import TableInterface
from sok_compat.tables.plane_variable import PlaneVariable

_TO_READ = ("gather_nd", "sparse_read")


def raise_undefined(table: TableInterface, method: str) -> NoReturn:
    """Refuses a method of tf.Variable.

    Raises:
      NotImplementedError: always.
    """
    why = not_by_gather = ""
    if table.use_hash_index:
        why = ": its rows belong to keys"
        if "embedding_lookup" not in table.words.look_up:
            not_by_gather = " (not with tf.gather or tf.nn.embedding_lookup)"
    instead = (
        f"Look keys up {table.words.look_up}{not_by_gather}"
        if method in _TO_READ
        else f"Use an optimizer, or {table.words.set_rows} to set rows"
    )
    raise NotImplementedError(
        f"{method} is not defined for the table {table.table_name}{why}. {instead}"
    )


def by_index(method: str) -> Callable[..., Any]:
    """Returns a method that raises for a table with a hash index; without one, rows are a
    variable's, and it does what TensorFlow's does."""

    def call(table: TableInterface, *args: Any, **kwargs: Any) -> Any:
        if table.use_hash_index:
            raise_undefined(table, method)
        return getattr(PlaneVariable, method)(table, *args, **kwargs)

    return call


def read_value_no_copy(table: TableInterface) -> tf.Tensor:
    """As a variable's, where keys are rows. `tf.nn.embedding_lookup_sparse` calls it in eager mode,
    or where a `tf.device` holds for the table and its ids, and takes ids for rows.

    Raises:
      NotImplementedError: with a hash index; on several ranks.
    """
    if not table.use_hash_index and table.ranks.size == 1:
        return PlaneVariable.read_value_no_copy(table)
    raise NotImplementedError(
        "tf.nn.embedding_lookup_sparse and safe_embedding_lookup_sparse take ids for rows in eager "
        f"mode, and inside of a tf.device, but the rows of the table {table.table_name} belong to "
        f"keys. Look keys up {table.words.look_up}"
    )


def from_proto(table: TableInterface, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError."""
    del args, kwargs
    raise_undefined(table, "from_proto")


def export_to_saved_model_graph(table: TableInterface, *args: Any, **kwargs: Any) -> NoReturn:
    """For tf.saved_model.save and Keras's model.save in eager mode.

    Raises:
      NotImplementedError: always.
    """
    del args, kwargs
    raise NotImplementedError(
        f"a SavedModel of eager mode cannot hold the table {table.table_name}: use "
        "sok_compat.export_saved_model for serving; to save, tf.train.Checkpoint, "
        f"model.save_weights with a path without an ending, or {table.words.save}"
    )


def copy_trackable_to_cpu(table: TableInterface, object_map: Any) -> NoReturn:
    """For asynchronous checkpoints.

    Raises:
      ValueError: always; TensorFlow ignores a NotImplementedError.
    """
    raise ValueError(
        f"the table {table.table_name} cannot be saved with "
        "experimental_enable_async_checkpoint, which copies all variables first: leave it out"
    )


def make_reads(table: TableInterface, handle: tf.Tensor, scope: str) -> tf.Tensor:
    """Returns the read of the rows for imported meta graphs.

    Also makes an op, under the name that convert_variables_to_constants reads, that fails it.
    """
    with tf.name_scope(f"{scope}Read/"):
        refuse = tf.raw_ops.Assert(
            condition=False,
            data=[
                f"a graph with tables cannot be frozen, got {table.table_name}: constants would "
                "have the rows, but not the keys. Export it with tf.compat.v1.saved_model, "
                "which saves both"
            ],
        )
        with tf.control_dependencies([refuse]):
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=table.row_dtype)
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=table.row_dtype, name="Rows")
