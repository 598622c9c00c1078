# SPDX-License-Identifier: Apache-2.0
"""`PlaneVariable`: a table's rows, or a slot of them, as TensorFlow sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.runtime.devices import is_on_gpu
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.strategies import OfAnyStrategy
from sok_compat.runtime.tf_versions import BaseResourceVariable, members

PLANE_READS = ("ReadVariableOp", "SokReadRows")  # ops that read a whole plane


class PlaneVariable(OfAnyStrategy, BaseResourceVariable):
    """The variable of a plane, of a table or of a slot, which belongs to any strategy.

    On a GPU, where only rows in use have memory, updates of the whole plane apply to these. In a
    graph, an open scope (training/update_scope.py) does this instead. A slot has its `table`;
    `table_handle` is the table's. Planes on the CPU behave as ordinary variables.
    """

    def __repr__(self) -> str:
        """Leaves the rows out, of which there may be many."""
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> tf.Operation | tf.Variable:
        """Subtracts [capacity, width].

        Raises:
          NotImplementedError: it cannot be known which key each row of delta is of.
        """
        update, options = super().assign_sub, (use_locking, name, read_value)
        return self._updated(update, tf.raw_ops.ResourceScatterSub, delta, *options)

    def assign_add(
        self,
        delta: Any,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> tf.Operation | tf.Variable:
        """Adds [capacity, width]; raises as assign_sub."""
        update, options = super().assign_add, (use_locking, name, read_value)
        return self._updated(update, tf.raw_ops.ResourceScatterAdd, delta, *options)

    def before_update(self, delta: Any) -> list[tf.Tensor]:
        """Checks what is added or subtracted; returns what the update waits for."""
        del delta
        return []

    def _updated(self, update, scatter, delta, use_locking, name, read_value):
        with tf.control_dependencies(self.before_update(delta)):
            if not self._updates_rows_itself():
                return update(delta, use_locking, name, read_value)
            return self._update_rows_in_use(scatter, delta, name, read_value)

    def _updates_rows_itself(self) -> bool:
        if not is_on_gpu(self):
            return False
        is_in_graph = self._in_graph_mode and not tf.compat.v1.get_default_graph().building_function
        table: Any = getattr(self, "table", self)
        return not (is_in_graph and table.num_scopes > 0)

    def _update_rows_in_use(
        self, scatter: Callable[..., tf.Operation], delta: Any, name: str | None, read_value: bool
    ) -> tf.Operation | tf.Variable:
        delta = tf.convert_to_tensor(delta, tf.float32)
        delta.shape.assert_is_compatible_with(self.shape)
        with tf.device(self.device), tf.control_dependencies([delta]):
            row_ids = ops.sok_rows_in_use(self.table_handle)
            update = scatter(
                resource=self.handle, indices=row_ids, updates=tf.gather(delta, row_ids), name=name
            )
        return self._lazy_read(update) if read_value else update

    def _lazy_read(self, op: tf.Operation) -> tf.Variable:
        """Returns the variable after an update, to be read on demand."""
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
