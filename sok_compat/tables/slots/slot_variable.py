# SPDX-License-Identifier: Apache-2.0
"""An optimizer's slot for a table: a plane that shares the table's row ids."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sok_compat.ranks.horovod.communicator import is_broadcast
from sok_compat.runtime.devices import is_on_gpu
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import (
    eager_context,
    eager_mode,
    var_is_initialized_op,
)
from sok_compat.tables import resource_handles
from sok_compat.tables.declared_capacity import warn_of_declared_capacity
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.plane_variable import PlaneVariable
from sok_compat.tables.rows.row_updates import are_kept_rows, raise_for_kept_rows
from sok_compat.tables.rows.row_writes import all_rows


class SlotVariable(PlaneVariable):
    """`[capacity, width]` floats beside a table's rows, with memory for the rows in use only.

    Without a capacity the shape is `[None, width]`: as many rows as the table's variable shows.
    Optimizers treat it as any resource variable. It is in GLOBAL_VARIABLES, not trainable.

    plane_name: its name in the op library.
    """

    def __init__(
        self,
        table_variable: TableInterface,
        name: str,
        width: int,
        fill: float,
        is_vector: bool = False,
    ) -> None:
        """Makes the slot.

        Args:
          name: the slot's full name, without the current name scope.
          is_vector: whether a slot of width 1 shows [n] to the optimizer (shown_rows.py).
        """
        self.width, self.fill, self.is_vector = width, fill, is_vector
        self.shown = table_variable.shown
        with tf.init_scope():  # outside functions and branches
            self._make(table_variable, name, [table_variable.capacity, width], fill)

    def _make(
        self, table_variable: TableInterface, name: str, shape: Sequence[int | None], fill: float
    ) -> None:
        in_graph = not tf.executing_eagerly()
        self._rows_belong_to_keys = table_variable.use_hash_index
        self.words = table_variable.words
        # Not kept alive in eager mode.
        self.table: Any = table_variable if in_graph else None
        with tf.name_scope(name) as scope, tf.device(table_variable.device):
            slot_name = resource_handles.name_from_scope(scope)
            unique_id = resource_handles.unique_id(slot_name)
            handle = resource_handles.plane_handle(slot_name, scope, shape)
            self.table_handle = table_variable.table_handle
            # In a graph, a slot that is made again replaces the earlier one.
            self.plane_name = slot_name if in_graph else unique_id
            self._attach = functools.partial(
                ops.sok_table_attach_slot,
                self.table_handle,
                handle,
                slot_name=self.plane_name,
                capacity=table_variable.op_capacity,
                width=self.width,
                initial_value=fill,
                rows_fill_in_order=table_variable.use_hash_index,
                **table_variable.file_attributes,
            )
            initializer_op = self._attach(name="Assign")
            super().__init__(
                trainable=False,
                shape=shape,
                dtype=tf.float32,
                handle=handle,
                name=slot_name,
                unique_id=unique_id,
                handle_name=slot_name,
                graph_element=_read(handle) if in_graph else None,
                initializer_op=initializer_op,
                is_initialized_op=var_is_initialized_op(handle) if in_graph else None,
                in_graph_mode=in_graph,
            )
            if in_graph and is_on_gpu(self):
                self._fetched = self._read_rows()
        if not in_graph:
            self._detacher = _Detacher(table_variable.table_handle, handle)
            self._deleters = resource_handles.deleters(handle)
        else:
            tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, self)
        table_variable.note_slot(self)

    def _read_plane(self, *args: Any, **kwargs: Any) -> tf.Tensor:
        if self._in_graph_mode:
            self._warn_of_whole_use()
        # Also without a capacity: in a function, this op waits for the keys that make it grow.
        if is_on_gpu(self) or tf.compat.dimension_value(self.shape[0]) is None:
            return self._read_rows()
        return super()._read_plane(*args, **kwargs)

    def _as_graph_element(self) -> tf.Tensor:
        """The tensor that a session fetches. Savers look at _graph_element but do not run it."""
        return self._fetched if is_on_gpu(self) else super()._as_graph_element()

    def initialize_if_missing(self) -> tf.Operation:
        """Returns an op that makes the slot unless it exists."""
        with tf.device(self.table.device):
            return self._attach(keep_existing=True)

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """Returns nothing: tf.train.Checkpoint saves a slot with its table."""
        return {}

    def _serialize_to_tensors(self) -> dict[str, Any]:
        """The same for a slot in a variable of Keras 3."""
        return {}

    def assign(self, value: Any, *args: Any, **kwargs: Any) -> tf.Operation | tf.Variable:
        """As a variable's, but ignores a result of hvd.broadcast: each rank's rows are its own.

        Without a hash index, rows that were kept elsewhere (see are_kept_rows) bring all rows of
        the table into use.

        Raises:
          NotImplementedError: the table has a hash index, and value is kept elsewhere (see
            raise_for_kept_rows).
        """
        if is_broadcast(value):
            return tf.no_op()
        if self._rows_belong_to_keys:
            raise_for_kept_rows(value, self.name, self.words)
        if not are_kept_rows(value):
            self._warn_of_whole_use()
            return super().assign(value, *args, **kwargs)
        with tf.control_dependencies([all_rows(self)]):
            return super().assign(value, *args, **kwargs)

    def _warn_of_whole_use(self) -> None:
        is_in_scope = self.table is not None and self.table.num_scopes > 0
        if is_in_scope or self.shows_rows_in_use():
            return
        way_out = (
            "call apply_gradients in sok_compat.OptimizerScope(tables)"
            if self._in_graph_mode
            else "use the optimizer of this name in tf.keras.optimizers, not in its legacy"
        )
        warn_of_declared_capacity(
            self.name,
            self.shape,
            "is read or updated in all rows that the table declares, at each step. To update the "
            f"rows in use, {way_out}; a lazy optimizer updates the rows of the batch",
        )


class _Detacher:
    """Detaches a slot from its table when the slot's owner is freed, in eager mode.

    As EagerResourceDeleter, it is a separate object, so the owner can be in a reference cycle.
    """

    def __init__(self, table_handle: tf.Tensor, slot_handle: tf.Tensor) -> None:
        self._handles = table_handle, slot_handle
        self._context = eager_context()  # must outlive this: __del__ runs an op

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing():  # needed modules may be gone
            return
        with eager_mode():  # the garbage collector may run anywhere
            ops.sok_table_detach_slot(*self._handles)


def _read(handle: tf.Tensor) -> tf.Tensor:
    with tf.name_scope("Read"):
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
