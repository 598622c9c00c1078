# SPDX-License-Identifier: Apache-2.0
"""Updates of a table's rows, for optimizers that call the variable's methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from sok_compat.ranks.horovod.communicator import is_broadcast
from sok_compat.runtime.op_library import ops
from sok_compat.tables.gpu_plane import PLANE_READS
from sok_compat.tables.slot_names import is_named_as_by_newer_keras
from sok_compat.tables.variable_mixin import VariableMixin

if TYPE_CHECKING:
    from sok_compat.tables.words import Words


_NEWER_KERAS_IN_GRAPH = (
    "those do not work in graph mode (apply_gradients counts a step and updates nothing); take the "
    "one of the same name in tf.keras.optimizers.legacy, or call apply_gradients in a tf.function"
)


def raise_for_kept_rows(value: Any, name: str, words: Words) -> None:
    """Refuses to assign an array, a variable or a placeholder.

    Keras's set_weights and `.h5` files assign these, and optimizers with use_ema. Such values have
    no keys: newer rows would become zeros, and keys that came in another order would get the rows
    of other keys.

    Args:
      value: the value to assign.
      name: of the table or slot.
      words: the table's.

    Raises:
      NotImplementedError: value is one of these.
    """
    is_fed = (
        tf.is_symbolic_tensor(value)
        and value.op.type == "Placeholder"
        and not value.graph.building_function  # where arguments are placeholders
    )
    if isinstance(value, tf.Tensor) and not is_fed:
        return
    raise NotImplementedError(
        f"{name} cannot be assigned rows that were kept elsewhere "
        f"({'a placeholder' if is_fed else type(value).__name__}), as they do not tell their keys: "
        f"save and restore tables with {words.save}. If Keras did it: set_weights, .h5 files, "
        "EarlyStopping(restore_best_weights=True) and optimizers with use_ema work on tables with "
        f"{words.without_index} only"
    )


class RowUpdates(VariableMixin):
    """`assign`, `assign_add` and the `scatter_...` by row id, on `handle`.

    Row ids are those of the table's gradients, not keys. Repeated ids are all added or subtracted;
    an update keeps one of them.
    """

    def assign(
        self,
        value: Any,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> tf.Operation | tf.Variable:
        """Sets the rows in use to those of `value` [capacity, dim], for optimizers.

        Ignores a result of hvd.broadcast: each rank's rows are its own.

        Raises:
          NotImplementedError: value has another shape; with a hash index, it is kept elsewhere (see
            raise_for_kept_rows); in a graph, an optimizer of tf.keras.optimizers computed it.
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
        self._raise_for_newer_keras("assign", value)
        with tf.control_dependencies([value]):  # value() may have allocated all rows
            row_ids = ops.sok_rows_in_use(self.table_handle)
        update = tf.raw_ops.ResourceScatterUpdate(
            resource=self.handle, indices=row_ids, updates=tf.gather(value, row_ids), name=name
        )
        return self._lazy_read(update) if read_value else update

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> tf.Operation | tf.Variable:
        """Subtracts [capacity, dim] from the rows.

        Raises:
          NotImplementedError: in a graph, an optimizer of tf.keras.optimizers computed delta.
        """
        self._raise_for_newer_keras("assign_sub", delta)
        return super().assign_sub(delta, use_locking, name, read_value)

    def assign_add(
        self,
        delta: Any,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> tf.Operation | tf.Variable:
        """Adds [capacity, dim] to the rows, in eager mode and in functions.

        Raises:
          NotImplementedError: in a graph.
        """
        self._raise_in_graph("assign_add")
        return super().assign_add(delta, use_locking, name, read_value)

    def scatter_add(
        self, sparse_delta: tf.IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> tf.Operation | tf.Variable:
        """Adds tf.IndexedSlices to rows; returns the op, or in eager mode the variable.

        Raises:
          TypeError: sparse_delta is not a tf.IndexedSlices.
          NotImplementedError: in a graph; use `tf.raw_ops.ResourceScatterAdd` on `handle`.
          tf.errors.InvalidArgumentError: when run: a row id is not in [0, capacity).
        """
        del use_locking
        self._raise_in_graph("scatter_add")
        return self._scatter("add", tf.raw_ops.ResourceScatterAdd, sparse_delta, name)

    def scatter_sub(
        self, sparse_delta: tf.IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> tf.Operation | tf.Variable:
        """As `scatter_add`, but subtracts, also in graphs."""
        del use_locking
        return self._scatter("sub", tf.raw_ops.ResourceScatterSub, sparse_delta, name)

    def scatter_update(
        self, sparse_delta: tf.IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> tf.Operation | tf.Variable:
        """As `scatter_sub`, but replaces rows."""
        del use_locking
        return self._scatter("update", tf.raw_ops.ResourceScatterUpdate, sparse_delta, name)

    def _scatter(
        self,
        method: str,
        scatter: Callable[..., tf.Operation],
        sparse_delta: tf.IndexedSlices,
        name: str | None,
    ) -> tf.Operation | tf.Variable:
        if not isinstance(sparse_delta, tf.IndexedSlices):
            raise TypeError(
                f"scatter_{method} of the table {self.table_name} takes tf.IndexedSlices with row "
                f"ids, as gradients have, got {type(sparse_delta).__name__}"
            )
        with tf.device(self.device):
            op = scatter(
                resource=self.handle,
                indices=sparse_delta.indices,
                updates=tf.cast(sparse_delta.values, tf.float32),
                name=name,
            )
        return self if tf.executing_eagerly() else op

    def _raise_for_newer_keras(self, method: str, value: Any) -> None:
        """Recognises, by their slots, the optimizers that call the same methods as stock Adam."""
        if not tf.is_symbolic_tensor(value) or not _is_in_graph():
            return
        others = _planes_in(value) - {self.table_name}
        if any(is_named_as_by_newer_keras(name, self) for name in others):
            raise NotImplementedError(
                f"the table {self.table_name} cannot be trained by this optimizer of "
                f"tf.keras.optimizers: {_NEWER_KERAS_IN_GRAPH}"
            )

    def _raise_in_graph(self, method: str) -> None:
        if _is_in_graph():
            raise NotImplementedError(
                f"{method} is not defined for the table {self.table_name} in graph mode: its rows "
                "belong to keys. If an optimizer of tf.keras.optimizers called it: "
                f"{_NEWER_KERAS_IN_GRAPH}"
            )


def _is_in_graph() -> bool:
    graph = tf.compat.v1.get_default_graph()
    return not tf.executing_eagerly() and not graph.building_function


def _planes_in(tensor: tf.Tensor) -> set[str]:
    """Returns the names of variables of its shape that a graph's tensor is computed from."""
    names, seen, to_visit = set(), set(), [tensor]
    while to_visit:
        op = to_visit.pop().op
        if op not in seen:
            seen.add(op)
            is_read = op.type in PLANE_READS
            names |= {op.inputs[0].op.name} if is_read else set()
            to_visit += [x for x in op.inputs if x.shape == tensor.shape]
    return names
