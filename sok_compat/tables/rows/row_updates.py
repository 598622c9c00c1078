# SPDX-License-Identifier: Apache-2.0
"""Updates of a table's rows, for optimizers that call the variable's methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.horovod.communicator import is_broadcast
from sok_compat.tables.rows.row_generations import have_generations, rows_of_ids
from sok_compat.tables.rows.row_ids import are_of_gradient
from sok_compat.tables.rows.row_writes import all_rows, rows_at
from sok_compat.tables.variable_mixin import VariableMixin
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

    Keras's set_weights and `.h5` files assign these, and optimizers with use_ema.
    """
    return not isinstance(value, tf.Tensor) or _is_fed(value)


def raise_for_kept_rows(value: Any, name: str, words: Words) -> None:
    """Refuses to assign such a value to a table with a hash index, or to its slot.

    It has no keys: newer rows would become zeros, and keys that came in another order would get the
    rows of other keys.

    Args:
      value: the value to assign.
      name: of the table or slot.
      words: the table's.

    Raises:
      NotImplementedError: are_kept_rows(value).
    """
    if not are_kept_rows(value):
        return
    kind = "a placeholder" if _is_fed(value) else type(value).__name__
    raise NotImplementedError(
        f"{name} cannot be assigned rows that were kept elsewhere ({kind}), as they do not tell "
        "their keys: "
        f"save and restore tables with {words.save}. If Keras did it: set_weights, .h5 files, "
        "EarlyStopping(restore_best_weights=True) and optimizers with use_ema work on tables with "
        f"{words.without_index} only"
    )


def _is_fed(value: Any) -> bool:
    return (
        tf.is_symbolic_tensor(value)
        and value.op.type == "Placeholder"
        and not value.graph.building_function  # where arguments are placeholders
    )


class RowUpdates(VariableMixin):
    """`assign`, `assign_add` and the `scatter_...` by row id, on `handle`.

    Repeated ids are all added or subtracted; an update keeps one of them. Without a hash index,
    rows that no lookup has inserted are written like others. With one, row ids are those of the
    table's gradients, and no others are taken: to users, rows belong to keys.
    """

    _load: tuple[tf.Tensor, tf.Operation] | None = None  # what `load` feeds and runs

    def assign(
        self,
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
        if is_broadcast(value):
            return tf.no_op()
        if self.use_hash_index:
            raise_for_kept_rows(value, self.table_name, self.words)
        value = tf.convert_to_tensor(value, tf.float32)
        if not value.shape.is_compatible_with(self.shape) or value.shape.rank == 0:
            raise NotImplementedError(
                f"assign to the table {self.table_name} needs the shape {self.shape}, got "
                f"{value.shape}: rows belong to keys. Use an optimizer, or {self.words.set_rows} "
                "to set rows"
            )
        with tf.control_dependencies([value]):
            row_ids = all_rows(self)
        # Without a hash index they are the first ones: a slice takes no memory.
        rows = tf.gather(value, row_ids) if self.use_hash_index else value[: tf.size(row_ids)]
        update = tf.raw_ops.ResourceScatterUpdate(
            resource=self.handle, indices=row_ids, updates=rows, name=name
        )
        return self._lazy_read(update) if read_value else update

    def before_update(self, delta: Any) -> list[tf.Tensor]:
        """Raises for rows kept elsewhere; a slot of the table, such as a momentum, has its keys."""
        if self.use_hash_index and getattr(delta, "table", None) is not self:
            raise_for_kept_rows(delta, self.table_name, self.words)
        return self._inserted()

    def _strided_slice_assign(self, *args: Any, **kwargs: Any) -> tf.Variable:
        """`table[i].assign(...)`, without a hash index."""
        with tf.control_dependencies(self._inserted()):
            return super()._strided_slice_assign(*args, **kwargs)

    def _inserted(self) -> list[tf.Tensor]:
        """What an update of all rows waits for, unless it is of a scope for the rows in use."""
        is_of_scope = self.num_scopes > 0 and not tf.executing_eagerly()
        return [] if self.use_hash_index or is_of_scope else [all_rows(self)]

    def scatter_add(
        self, sparse_delta: tf.IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> tf.Operation | tf.Variable:
        """Adds tf.IndexedSlices to rows; returns the op, or in eager mode the variable.

        Raises:
          TypeError: sparse_delta is not a tf.IndexedSlices.
          tf.errors.InvalidArgumentError: when run: a row id is not in [0, capacity).
        """
        del use_locking
        return self._scatter_slices("add", sparse_delta, name)

    def scatter_sub(
        self, sparse_delta: tf.IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> tf.Operation | tf.Variable:
        """As `scatter_add`, but subtracts."""
        del use_locking
        return self._scatter_slices("sub", sparse_delta, name)

    def scatter_update(
        self, sparse_delta: tf.IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> tf.Operation | tf.Variable:
        """As `scatter_add`, but replaces rows."""
        del use_locking
        return self._scatter_slices("update", sparse_delta, name)

    def _scatter_slices(
        self, update: str, sparse_delta: tf.IndexedSlices, name: str | None
    ) -> tf.Operation | tf.Variable:
        self._raise_if_undefined(update)
        if not isinstance(sparse_delta, tf.IndexedSlices):
            raise TypeError(
                f"scatter_{update} of the table {self.table_name} takes tf.IndexedSlices with row "
                f"ids, as gradients have, got {type(sparse_delta).__name__}"
            )
        op = self.scatter(update, sparse_delta.indices, sparse_delta.values, name)
        return self if tf.executing_eagerly() else op

    def scatter(
        self, update: str, indices: Any, values: Any, name: str | None = None
    ) -> tf.Operation | None:
        """Updates rows by row id.

        Args:
          update: 'add', 'sub' or 'update'; without a hash index also 'mul', 'div', 'max', 'min', or
            'nd_add', 'nd_sub', 'nd_update', 'nd_max', 'nd_min'.
          indices: integers; of scatter_nd with a last dimension, of row ids or places in rows.
          values: [*shape of the indices, dim], or a number; of scatter_nd as there.
          name: of the op.

        Returns:
          The op; None in eager mode.

        Raises:
          NotImplementedError: another update; with a hash index, other indices than a gradient's.
          tf.errors.InvalidArgumentError: when run: this rank has no such row.
          tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError: outside of graphs, as
            `rows_of_gradient`.
        """
        self._raise_if_undefined(update)
        inserted, handle = [], "resource"
        if update.startswith("nd_"):
            inserted, handle = self._inserted(), "ref"
        elif not self.use_hash_index:
            indices = rows_at(self, indices)
        elif self.shows_rows():
            pass  # row ids of an optimizer
        elif have_generations() and isinstance(indices, tf.Tensor):
            indices, values = rows_of_ids(self, indices, values)
        elif not are_of_gradient(self, indices):
            raise NotImplementedError(
                f"scatter_{update} of the table {self.table_name} takes the indices of its "
                "gradients alone: rows belong to keys. Use an optimizer, or "
                f"{self.words.set_rows} to set rows"
            )
        with tf.device(self.device), tf.control_dependencies(inserted):
            return _SCATTERS[update](
                **{handle: self.handle},
                indices=indices,
                updates=tf.cast(values, tf.float32),
                name=name,
            )

    def load(self, value: Any, session: tf.compat.v1.Session | None = None) -> None:
        """As a variable's, without a hash index: assigns `value` [capacity, dim]; with one, raises.

        In a graph the first call adds two ops, so it has to come before the graph is finalized.
        """
        if self.use_hash_index:
            return super().load(value, session)
        if tf.executing_eagerly():
            self.assign(value)
            return None
        session = session or tf.compat.v1.get_default_session()
        if session is None:
            raise ValueError(
                f"load of the table {self.table_name} in a graph needs a session: pass it, or open "
                "`with session.as_default()`"
            )
        if self._load is None:
            with session.graph.as_default(), tf.control_dependencies(None):
                given = tf.compat.v1.placeholder(tf.float32, self.shape)
                self._load = given, self.assign(given, read_value=False)
        given, assigned = self._load
        session.run(assigned, {given: value})
        return None

    def _raise_if_undefined(self, update: str) -> None:
        if update not in _SCATTERS or (self.use_hash_index and update not in _OF_GRADIENTS):
            getattr(super(), f"scatter_{update}")()


def _scattering(update: str) -> Callable[..., tf.Operation | tf.Variable]:
    def scatter_nd(self, indices, updates, name=None):
        op = self.scatter(update, indices, updates, name)
        return self if tf.executing_eagerly() else op

    def scatter(self, sparse_delta, use_locking=False, name=None):
        del use_locking
        return self._scatter_slices(update, sparse_delta, name)

    method = scatter_nd if update.startswith("nd_") else scatter
    method.__name__ = f"scatter_{update}"
    method.__doc__ = "As a variable's, without a hash index; with one, raises."
    return method


for _update in _SCATTERS.keys() - _OF_GRADIENTS:
    setattr(RowUpdates, f"scatter_{_update}", _scattering(_update))
