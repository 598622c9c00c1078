# SPDX-License-Identifier: Apache-2.0
"""`PlaneVariable`: a table's rows, or a slot of them, as TensorFlow sees it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime.devices import is_on_gpu
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.strategies import OfAnyStrategy
from sok_compat.runtime.tf_versions import BaseResourceVariable, members, variable_accessed
from sok_compat.tables.rows.row_scatters import gather_rows, scatter_rows
from sok_compat.tables.shows import TO_USERS, Shown

PLANE_READS = ("ReadVariableOp", "SokReadRows")  # ops that read a whole plane


class PlaneVariable(OfAnyStrategy, BaseResourceVariable):
    """The variable of a plane, of a table or of a slot, which belongs to any strategy.

    Inside `showing_rows_in_use` and its like, reads and updates are of the shown rows, else of all.
    On a GPU, where only rows in use have memory, updates of the whole plane apply to these. In a
    graph, an open scope (training/update_scope.py) does this instead. A slot has its `table`;
    `table_handle` and `shown` are the table's. Planes on the CPU behave as ordinary variables.
    """

    table_handle: tf.Tensor
    shown: Shown
    row_dtype = tf.float32  # of the numbers in memory
    is_vector = False  # True: a slot of width 1 shows [n], not [n, 1]

    def __repr__(self) -> str:
        """Leaves the rows out, of which there may be many."""
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the shown rows."""
        return self.shown.now.shape(super().shape, self.is_vector)

    def shows_rows_in_use(self) -> bool:
        """Whether this is inside `showing_rows_in_use` or `showing_rows_of`."""
        return self.shown_row_ids() is not None

    def shows_rows(self) -> bool:
        """Whether this is inside one of these contexts."""
        return self.shown.now is not TO_USERS

    def shown_row_ids(self) -> tf.Tensor | None:
        """Returns int64 [n], the ids of the rows that this shows; None: all, by their ids."""
        return self.shown.now.row_ids

    def sparse_read(self, indices: Any, name: str | None = None) -> tf.Tensor:
        """Gathers from the shown rows."""
        row_ids = self.shown.now.rows_at(indices)
        return super().sparse_read(indices, name) if row_ids is None else self._gather(row_ids)

    def _read_variable_op(self, *args: Any, **kwargs: Any) -> tf.Tensor:
        row_ids = self.shown_row_ids()
        if row_ids is None:
            return self._read_plane(*args, **kwargs)
        return self._gather(row_ids)

    def _read_plane(self, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Reads all rows."""
        return super()._read_variable_op(*args, **kwargs)

    def _gather(self, row_ids: tf.Tensor) -> tf.Tensor:
        variable_accessed(self)
        with tf.device(self.device):
            rows = gather_rows(self, row_ids)
        return tf.squeeze(rows, axis=-1) if self.is_vector else rows

    def assign(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Sets the shown rows; outside of eager mode returns their values, with which optimizers go
        on."""
        if not self.shows_rows_in_use():
            return super().assign(value, *args, **kwargs)
        done = self.update_shown("update", value)
        if tf.executing_eagerly():
            return done
        with tf.control_dependencies([done]):
            return tf.identity(value)

    def assign_slice(self, *args: Any, **kwargs: Any) -> tf.Variable:
        """Assigns to `variable[...]`, all rows by their ids."""
        return super()._strided_slice_assign(*args, **kwargs)

    def assign_sub(
        self, delta: tf.Tensor | tf.IndexedSlices, *args: Any, **kwargs: Any
    ) -> tf.Operation | tf.Variable:
        """Subtracts from the shown rows.

        Raises:
          NotImplementedError: it cannot be known which key each row of delta is of.
        """
        update = super().assign_sub
        return self._updated(update, "sub", delta, *args, **kwargs)

    def assign_add(
        self, delta: tf.Tensor | tf.IndexedSlices, *args: Any, **kwargs: Any
    ) -> tf.Operation | tf.Variable:
        """Adds to the shown rows; raises as assign_sub."""
        update = super().assign_add
        return self._updated(update, "add", delta, *args, **kwargs)

    def scatter_add(self, sparse_delta: tf.IndexedSlices, *args: Any, **kwargs: Any) -> Any:
        """Adds to shown rows."""
        if self.shows_rows_in_use():
            return self.update_shown("add", sparse_delta)
        return super().scatter_add(sparse_delta, *args, **kwargs)

    def scatter_sub(self, sparse_delta: tf.IndexedSlices, *args: Any, **kwargs: Any) -> Any:
        """Subtracts from shown rows."""
        if self.shows_rows_in_use():
            return self.update_shown("sub", sparse_delta)
        return super().scatter_sub(sparse_delta, *args, **kwargs)

    def scatter_update(self, sparse_delta: tf.IndexedSlices, *args: Any, **kwargs: Any) -> Any:
        """Replaces shown rows."""
        if self.shows_rows_in_use():
            return self.update_shown("update", sparse_delta)
        return super().scatter_update(sparse_delta, *args, **kwargs)

    def update_shown(self, update: str, value: Any) -> tf.Operation | tf.Variable:
        """Updates the shown rows by [n, width], or some of them by tf.IndexedSlices of places: see
        scatter_rows.

        Returns the op; in eager mode the variable, as the variable's own methods do."""
        row_ids = self.shown_row_ids()
        if isinstance(value, tf.IndexedSlices):
            row_ids, value = tf.gather(row_ids, value.indices), value.values
        value = tf.convert_to_tensor(value, tf.float32)
        value = value[..., tf.newaxis] if self.is_vector else value
        with tf.device(self.device):
            done = scatter_rows(self, update, row_ids, value, is_trained=True)
        return self if tf.executing_eagerly() else done

    def before_update(self, delta: tf.Tensor | tf.IndexedSlices) -> list[tf.Tensor]:
        """Checks what is added or subtracted; returns what the update waits for."""
        del delta
        return []

    def _updated(self, update, scatter, delta, use_locking=None, name=None, read_value=True):
        if self.shows_rows_in_use():
            return self.update_shown(scatter, delta)
        with tf.control_dependencies(self.before_update(delta)):
            if not self._updates_rows_itself():
                return update(delta, use_locking, name, read_value)
            return self._update_rows_in_use(scatter, delta, name, read_value)

    def _updates_rows_itself(self) -> bool:
        if self.row_dtype != tf.float32:  # which no op of TensorFlow adds to
            return True
        if not is_on_gpu(self):
            return False
        is_in_graph = self._in_graph_mode and not tf.compat.v1.get_default_graph().building_function
        table: Any = getattr(self, "table", self)
        return not (is_in_graph and table.num_scopes > 0)

    def _update_rows_in_use(
        self, scatter: str, delta: tf.Tensor | tf.IndexedSlices, name: str | None, read_value: bool
    ) -> tf.Operation | tf.Variable:
        delta = tf.convert_to_tensor(delta, tf.float32)
        delta.shape.assert_is_compatible_with(self.shape)
        with tf.device(self.device), tf.control_dependencies([delta]):
            row_ids = ops.sok_rows_in_use(self.table_handle)
            update = scatter_rows(self, scatter, row_ids, tf.gather(delta, row_ids), name)
        return self.after(update, read_value)

    def after(self, update: tf.Operation, read_value: bool) -> tf.Operation | tf.Variable:
        """Returns the variable after an update, to be read on demand, or just the update."""
        return self._lazy_read(update) if read_value else update

    def _lazy_read(self, op: tf.Operation) -> tf.Operation | tf.Variable:
        """Returns the variable after an update, to be read on demand; in a graph, of rows of two
        bytes, the op."""
        if self.row_dtype != tf.float32:  # of which such a variable reads another dtype
            return self if tf.executing_eagerly() else op
        unread = super()._lazy_read(op)
        if not is_on_gpu(self):
            return unread

        def read():
            with tf.control_dependencies([op]):
                return self._read_rows()

        return members.read_by(unread, read)

    def _read_rows(self) -> tf.Tensor:
        with tf.device(self.device):
            values = ops.sok_read_rows(self.handle, self.table_handle)
        values.set_shape(self.shape)
        return values
