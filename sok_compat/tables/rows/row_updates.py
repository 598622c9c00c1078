# SPDX-License-Identifier: Apache-2.0
"""Updates of a table's rows, for optimizers that call the variable's methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.horovod.communicator import is_broadcast
from sok_compat.runtime.tf_versions import members
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.plane_variable import PlaneVariable
from sok_compat.tables.rows.row_generations import have_generations, rows_of_ids
from sok_compat.tables.rows.row_ids import checked_row_ids
from sok_compat.tables.rows.row_scatters import scatter_rows
from sok_compat.tables.rows.row_writes import all_rows, rows_at
from sok_compat.tables.undefined_methods import raise_undefined
from sok_compat.tables.words import Words

_SCATTERS = {
    **{
        name.lower(): getattr(tf.raw_ops, f"ResourceScatter{name}")
        for name in ("Add", "Sub", "Update", "Mul", "Div", "Max", "Min")
    },
    **{
        f"nd_{name.lower()}": getattr(tf.raw_ops, f"ResourceScatterNd{name}")
        for name in ("Add", "Sub", "Update", "Max", "Min")
    },
}
_OF_GRADIENTS = ("add", "sub", "update")


def are_kept_rows(value: Any) -> bool:
    """Whether a value to assign is an array, a variable or a placeholder.

    Keras's set_weights and `.h5` files assign these.
    """
    return not isinstance(value, tf.Tensor) or _is_fed(value)


def raise_for_kept_rows(value: Any, name: str, words: Words) -> None:
    """Refuses to assign such a value to a table with a hash index, or to its slot.

    It has no keys: newer rows would become zeros, and keys that came in another order would get the
    rows of other keys.

    Raises:
      NotImplementedError: are_kept_rows(value).
    """
    if not are_kept_rows(value):
        return
    kind = "a placeholder" if _is_fed(value) else type(value).__name__
    raise NotImplementedError(
        f"{name} cannot be assigned rows that were kept elsewhere ({kind}), as they do not tell "
        "their keys: "
        f"save and restore tables with {words.save}. If Keras did it: set_weights, .h5 files "
        "and EarlyStopping(restore_best_weights=True) work on tables with "
        f"{words.without_index} only"
    )


def _is_fed(value: Any) -> bool:
    return (
        tf.is_symbolic_tensor(value)
        and value.op.type == "Placeholder"
        and not value.graph.building_function  # where arguments are placeholders
    )


def assign(
    table: TableInterface,
    value: Any,
    use_locking: bool | None = None,
    name: str | None = None,
    read_value: bool = True,
) -> tf.Operation | tf.Variable:
    """Sets the rows to those of `value` [capacity, dim]; with a hash index, the rows in use.

    Ignores a result of hvd.broadcast: each rank's rows are its own.

    Raises:
      NotImplementedError: value has another shape; with a hash index, it is kept elsewhere (see
        raise_for_kept_rows).
    """
    del use_locking
    if table.shows_rows_in_use():
        return PlaneVariable.assign(table, value)
    if is_broadcast(value):
        return tf.no_op()
    if table.use_hash_index:
        raise_for_kept_rows(value, table.table_name, table.words)
    value = tf.convert_to_tensor(value, tf.float32)
    if not value.shape.is_compatible_with(table.shape) or value.shape.rank == 0:
        raise NotImplementedError(
            f"assign to the table {table.table_name} needs the shape {table.shape}, got "
            f"{value.shape}: rows belong to keys. Use an optimizer, or {table.words.set_rows} "
            "to set rows"
        )
    with tf.control_dependencies([value]):
        row_ids = all_rows(table)
    # Without a hash index they are the first ones: a slice takes no memory.
    rows = tf.gather(value, row_ids) if table.use_hash_index else value[: tf.size(row_ids)]
    update = scatter_rows(table, "update", row_ids, rows, name)
    return table.after(update, read_value)


def before_update(table: TableInterface, delta: tf.Tensor | tf.IndexedSlices) -> list[tf.Tensor]:
    """Raises for rows kept elsewhere; a slot of the table, such as a momentum, has its keys."""
    if table.use_hash_index and getattr(delta, "table", None) is not table:
        raise_for_kept_rows(delta, table.table_name, table.words)
    return _inserted(table)


def strided_slice_assign(table: TableInterface, *args: Any, **kwargs: Any) -> tf.Variable:
    """`table[i].assign(...)`, without a hash index."""
    _raise_if_narrow(table, "an assignment to a slice", "assign the whole table")
    with tf.control_dependencies(_inserted(table)):
        return table.assign_slice(*args, **kwargs)


def _inserted(table: TableInterface) -> list[tf.Tensor]:
    """What an update of all rows waits for, unless it is of a scope for the rows in use."""
    is_of_scope = table.num_scopes > 0 and not tf.executing_eagerly()
    return [] if table.use_hash_index or is_of_scope else [all_rows(table)]


def scattering(update: str) -> Callable[..., tf.Operation | tf.Variable]:
    """Returns the method scatter_<update> of tables.

    It takes tf.IndexedSlices with row ids, as gradients have; scatter_nd as a variable's. It
    returns the op, or in eager mode the variable. See `scatter` for what it raises.
    """

    def scatter_nd(
        table: TableInterface, indices: Any, updates: Any, name: str | None = None
    ) -> Any:
        """Updates rows, or numbers of them, at indices as tf.scatter_nd takes them."""
        op = scatter(table, update, indices, updates, name)
        return table if tf.executing_eagerly() else op

    def scatter_slices(
        table: TableInterface,
        sparse_delta: tf.IndexedSlices,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Any:
        """Updates rows by tf.IndexedSlices of row ids, as gradients are."""
        del use_locking
        if update in _OF_GRADIENTS and table.shows_rows_in_use():
            return table.update_shown(update, sparse_delta)
        _raise_if_undefined(table, update)
        if not isinstance(sparse_delta, tf.IndexedSlices):
            raise TypeError(
                f"scatter_{update} of the table {table.table_name} takes tf.IndexedSlices with row "
                f"ids, as gradients have, got {type(sparse_delta).__name__}"
            )
        op = scatter(table, update, sparse_delta.indices, sparse_delta.values, name)
        return table if tf.executing_eagerly() else op

    return scatter_nd if update.startswith("nd_") else scatter_slices


def scatter(
    table: TableInterface,
    update: str,
    indices: Any,
    values: Any,
    name: str | None = None,
) -> tf.Operation | None:
    """Updates rows by row id.

    Args:
      update: 'add', 'sub' or 'update'; without a hash index also 'mul', 'div', 'max', 'min', or
        'nd_add', 'nd_sub', 'nd_update', 'nd_max', 'nd_min'.
      indices: integers; of scatter_nd with a last dimension, of row ids or places in rows.
      values: [*shape of the indices, dim], or a number; of scatter_nd as there.

    Returns:
      The op; None in eager mode.

    Raises:
      NotImplementedError: another update; with a hash index, other indices than a gradient's.
      tf.errors.InvalidArgumentError: when run: this rank has no such row.
      tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError: as `rows_of_gradient`.
    """
    _raise_if_undefined(table, update)
    inserted, handle = [], "resource"
    if update.startswith("nd_"):
        inserted, handle = _inserted(table), "ref"
    elif not table.use_hash_index:
        indices = rows_at(table, indices)
    elif table.shows_rows():
        pass  # row ids of an optimizer
    elif have_generations() and tf.is_tensor(indices):
        indices, values = rows_of_ids(table, indices, values)
    else:
        indices = checked_row_ids(table, indices)
    values = tf.cast(values, tf.float32)
    with tf.device(table.device), tf.control_dependencies(inserted):
        if table.row_dtype != tf.float32:
            return scatter_rows(table, update, indices, values, name)
        return _SCATTERS[update](
            **{handle: table.handle},
            indices=indices,
            updates=values,
            name=name,
        )


def load(table: TableInterface, value: Any, session: tf.compat.v1.Session | None = None) -> None:
    """As a variable's, without a hash index: assigns `value` [capacity, dim]; with one, raises."""
    if table.use_hash_index:
        raise_undefined(table, "load")
    if tf.executing_eagerly():
        table.assign(value)
        return None
    session = session or tf.compat.v1.get_default_session()
    if session is None:
        raise ValueError(
            f"load of the table {table.table_name} in a graph needs a session: pass it, or open "
            "`with session.as_default()`"
        )
    if table.load_ops is None:
        with members.extending(session.graph), tf.control_dependencies(None):
            given = tf.compat.v1.placeholder(tf.float32, table.shape)
            table.load_ops = given, table.assign(given, read_value=False)
    given, assigned = table.load_ops
    session.run(assigned, {given: value})
    return None


def _raise_if_undefined(table: TableInterface, update: str) -> None:
    if update not in _SCATTERS or (table.use_hash_index and update not in _OF_GRADIENTS):
        raise_undefined(table, f"scatter_{update}")
    if update not in _OF_GRADIENTS:
        _raise_if_narrow(table, f"scatter_{update}", "use scatter_add, _sub or _update")


def _raise_if_narrow(table: TableInterface, called: str, way_out: str) -> None:
    if table.row_dtype == tf.float32:
        return
    raise NotImplementedError(
        f"{called} is not defined for the table {table.table_name}, whose rows are "
        f"{table.row_dtype.name}: {way_out}, or make it with row_dtype=tf.float32"
    )
