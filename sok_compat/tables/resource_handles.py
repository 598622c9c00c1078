# SPDX-License-Identifier: Apache-2.0
"""Handles of tables and planes.

In a graph a handle is an op, found again by its name. In eager mode it is a value, and its resource
is freed with the Python object that owns it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence

import tensorflow as tf

from sok_compat.ranks.shared_gradients import mark_handle_of_plane
from sok_compat.runtime.graphs import graphs_around, outside
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import (
    EagerResourceDeleter,
    anonymous_name,
    eager_variable_handle,
    var_handle_op,
)
from sok_compat.tables.interface import TableInterface

_next_unique_id = itertools.count()
_TABLE = "_sok_compat_table_of_rows"  # an attribute of the handle of a table's rows


def name_from_scope(scope: str) -> str:
    """Returns the name of a variable with ops in the name scope `scope`, unique in its graph.

    Eager mode does not make name scopes unique, so the name is registered with the default graph.
    As in a graph, names start over with tf.keras.backend.clear_session().
    """
    name = scope.rstrip("/")
    if not tf.executing_eagerly():
        return name
    *_, outermost = graphs_around(tf.compat.v1.get_default_graph())
    return outermost.unique_name(name)


def unique_id(name: str) -> str:
    """Returns an id that no variable of this process has had."""
    return f"{name}_{next(_next_unique_id)}"


def plane_handle(
    name: str,
    scope: str,
    shape: Sequence[int | None],
    table: TableInterface | None = None,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """Creates the handle of a resource variable [capacity, width] without a value: of a Table's
    rows, or of a slot if `table` is None."""
    if tf.executing_eagerly():
        handle = eager_variable_handle(shape, dtype, name)
    else:
        handle = var_handle_op(dtype=dtype, shape=shape, shared_name=name, name=scope)
    if table is not None:
        setattr(handle, _TABLE, weakref.ref(table))
    return mark_handle_of_plane(handle)


def table_of_rows(handle: tf.Tensor) -> TableInterface | None:
    """Returns the table whose rows a handle, or the one it was captured or switched from, is of;
    or None."""
    tables = (getattr(each, _TABLE, lambda: None)() for each in outside(handle))
    return next((table for table in tables if table is not None), None)


def table_handle(name: str) -> tf.Tensor:
    """Creates the handle of a table, not initialized."""
    shared_name = anonymous_name() if tf.executing_eagerly() else name + "/table"
    return ops.sok_table_handle(shared_name=shared_name, name="table")


def deleters(*handles: tf.Tensor) -> list[EagerResourceDeleter]:
    """Returns objects that free the handles' resources when the owner of these objects is freed.

    The list is empty in a graph, where resources belong to the session.
    """
    if not tf.executing_eagerly():
        return []
    return [EagerResourceDeleter(handle, handle.device) for handle in handles]
