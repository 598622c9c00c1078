# SPDX-License-Identifier: Apache-2.0
"""Eight raw ops of SparseOperationKit 2, for libraries with a dynamic variable of their own.

They work on the keys and rows of this rank alone.
"""

from __future__ import annotations

import json
from typing import Any

import tensorflow as tf

from sok_compat.lookup.find_rows import find_rows
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import NewKeys
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.sparse_operation_kit.communication import initialized_ranks
from sok_compat.sparse_operation_kit.variables.first_values import first_value_of_keys
from sok_compat.sparse_operation_kit.variables.options import DynamicOptions, checked_var_type
from sok_compat.tables.first_value import FirstValue
from sok_compat.tables.placement import Placement
from sok_compat.tables.rows.row_scatters import scatter_rows
from sok_compat.tables.rows.row_writes import write_rows
from sok_compat.tables.table import Table

_COLLECTION = "sok_dummy_variables"

_eager_tables: dict[int, Table] = {}  # {id of a handle: its table}, for as long as the process


def dummy_var_handle(
    container: str = "",
    shared_name: str = "",
    key_type: tf.DType | str = tf.int64,
    dtype: tf.DType | str = tf.float32,
    shape: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """Makes a dynamic variable of this rank. API of SparseOperationKit 2.

    Args:
      container: ignored.
      shared_name: its name, made unique; '': 'DummyVar'.
      key_type: ignored: keys are integers of any dtype.
      dtype: float32.
      shape: [None, dim].
      name: ignored.

    Returns:
      Its handle, for the other ops.

    Raises:
      RuntimeError: sok.init has not been called.
      ValueError: shape or dtype is another.
    """
    del container, key_type, name
    sizes = tf.TensorShape(shape)
    if sizes.rank != 2 or not sizes.as_list()[1] or tf.as_dtype(dtype) != tf.float32:
        raise ValueError(
            "dummy_var_handle needs the shape [None, dim] and dtype float32, got "
            f"{shape} and {tf.as_dtype(dtype).name}"
        )
    ranks = initialized_ranks("sok.raw_ops.dummy_var_handle")
    table = Table(
        None,
        sizes.as_list()[1],
        row_dtype=tf.float32,
        name=shared_name or "DummyVar",
        trainable=False,
        placement=Placement.replicated(ranks),
        collections=[_COLLECTION],
    )
    if tf.is_symbolic_tensor(table.handle):
        return table.handle
    _eager_tables[id(table.handle)] = table
    return table.handle


def dummy_var_initialize(
    handle: tf.Tensor,
    initializer: Any = "",
    var_type: str = "",
    unique_name: str = "",
    key_type: tf.DType | str = tf.int64,
    dtype: tf.DType | str = tf.float32,
    config: str = "{}",
) -> tf.Operation | None:
    """Returns an op that empties the variable; in eager mode, empties it.

    API of SparseOperationKit 2.

    Args:
      handle: of dummy_var_handle, a scalar.
      initializer: as of DynamicVariable, or a tensor, whose first element when this runs fills the
        rows.
      var_type: 'hbm' (also '') or 'hybrid'.
      unique_name: ignored.
      key_type: ignored.
      dtype: ignored.
      config: the options of DynamicVariable as JSON.

    Raises:
      TypeError, ValueError: var_type, initializer or config is out of range.
    """
    del unique_name, key_type, dtype
    table = _table_of(handle)
    var_type = checked_var_type(var_type or "hbm")
    options = DynamicOptions.of(json.loads(config or "{}"))
    stored = None
    if not isinstance(initializer, str):
        initializer, stored = _first_element_of(initializer)
    shape = [options.init_capacity, table.dim]
    done = table.restarted(first_value_of_keys(initializer, var_type, shape, "the initializer"))
    return done if stored is None else tf.group(done, stored)


def dummy_var_shape(
    handle: tf.Tensor, key_type: tf.DType | str = tf.int64, dtype: tf.DType | str = tf.float32
) -> tf.Tensor:
    """Returns int32 [2]: (rows, dim). API of SparseOperationKit 2.

    Args:
      handle: of dummy_var_handle.
      key_type: ignored.
      dtype: ignored.
    """
    del key_type, dtype
    table = _table_of(handle)
    return tf.stack([tf.cast(table.num_keys(), tf.int32), table.dim])


def dummy_var_sparse_read(
    handle: tf.Tensor, indices: Any, dtype: tf.DType | str = tf.float32, lookup_only: bool = False
) -> tf.Tensor:
    """Returns the row of each key. API of SparseOperationKit 2.

    Args:
      handle: of dummy_var_handle.
      indices: integers [n].
      dtype: ignored.
      lookup_only: whether unknown keys get no row; they read their first values.

    Returns:
      float32 [n, dim]. Its gradient by the handle is a tf.IndexedSlices by keys, with a slice for
      each of the indices.
    """
    del dtype
    table = _table_of(handle)
    indices = tf.convert_to_tensor(indices)
    keys = tf.cast(tf.reshape(indices, [-1]), tf.int64)

    @tf.custom_gradient
    def read(handle):
        (rows,) = lookup_group([Lookup(table, keys)], not lookup_only)

        def gradient(of_rows):
            with tf.control_dependencies([rows]):  # updates find the keys that the read inserts
                read_keys = tf.identity(indices)
            return tf.IndexedSlices(of_rows, read_keys, dummy_var_shape(table.handle))

        return tf.stop_gradient(rows), gradient

    rows = read(handle)
    rows.set_shape([None, table.dim])
    return rows


def dummy_var_scatter_add(handle: tf.Tensor, indices: Any, updates: Any) -> tf.Operation | None:
    """Adds updates [n, dim] to the rows of keys [n]; ignores unknown keys.

    API of SparseOperationKit 2.

    Args:
      handle: of dummy_var_handle.
      indices: integers [n].
      updates: float32 [n, dim].

    Returns:
      The op; None in eager mode.
    """
    return _scatter("add", handle, indices, updates)


def dummy_var_scatter_update(handle: tf.Tensor, indices: Any, updates: Any) -> tf.Operation | None:
    """Replaces the rows of keys [n] by updates [n, dim]; ignores unknown keys.

    API of SparseOperationKit 2.

    Args:
      handle: of dummy_var_handle.
      indices: integers [n].
      updates: float32 [n, dim].

    Returns:
      The op; None in eager mode.
    """
    return _scatter("update", handle, indices, updates)


def dummy_var_assign(handle: tf.Tensor, indices: Any, values: Any) -> tf.Operation | None:
    """Sets the rows of distinct keys [n] to values [n, dim]; unknown keys are inserted.

    API of SparseOperationKit 2.

    Args:
      handle: of dummy_var_handle.
      indices: distinct integers [n].
      values: float32 [n, dim].

    Returns:
      The op; None in eager mode.
    """
    return write_rows(_table_of(handle), tf.cast(indices, tf.int64), values)


def dummy_var_export(
    handle: tf.Tensor, key_type: tf.DType | str = tf.int64, dtype: tf.DType | str = tf.float32
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (keys [n] of key_type, rows float32 [n, dim]). API of SparseOperationKit 2.

    Args:
      handle: of dummy_var_handle.
      key_type: dtype of the keys that are returned.
      dtype: ignored.
    """
    del dtype
    keys, rows = _table_of(handle).export()
    return tf.cast(keys, key_type), rows


def _table_of(handle: tf.Tensor) -> Table:
    with tf.init_scope():
        in_graph = [] if tf.executing_eagerly() else tf.compat.v1.get_collection(_COLLECTION)
    found = {id(table.handle): table for table in in_graph} or _eager_tables
    if id(handle) not in found:
        raise ValueError(f"{handle!r} is not the result of sok.raw_ops.dummy_var_handle here")
    return found[id(handle)]


def _first_element_of(values: Any) -> tuple[FirstValue, tf.Operation | None]:
    """Returns the FirstValue, and the op that stores it if it is not known yet."""
    values = tf.convert_to_tensor(values, tf.float32)
    if values.shape.num_elements() == 0:
        raise ValueError("the initializer needs an element, got an empty tensor")
    known = tf.get_static_value(values)
    if known is not None:
        return FirstValue("constant", float(known.flat[0])), None
    element = tf.compat.v1.Variable(0.0, trainable=False, collections=[], use_resource=True)

    def filled(shape, dtype):
        return tf.fill(shape, tf.cast(element, dtype))

    stored = element.assign(tf.reshape(values, [-1])[0])
    return FirstValue("evaluated", initializer=filled), stored.op


def _scatter(update: str, handle: tf.Tensor, indices: Any, updates: Any) -> Any:
    table = _table_of(handle)
    with tf.device(table.device):
        ((row_ids,), _) = find_rows([table], [tf.cast(indices, tf.int64)], [NewKeys()])
        has_row = row_ids >= 0
        return scatter_rows(
            table,
            update,
            tf.boolean_mask(row_ids, has_row),
            tf.boolean_mask(tf.cast(updates, tf.float32), has_row),
        )


__all__ = [
    "dummy_var_assign",
    "dummy_var_export",
    "dummy_var_handle",
    "dummy_var_initialize",
    "dummy_var_scatter_add",
    "dummy_var_scatter_update",
    "dummy_var_shape",
    "dummy_var_sparse_read",
]
