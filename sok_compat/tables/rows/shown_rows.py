# SPDX-License-Identifier: Apache-2.0
"""Tables and slots that show only their rows in use, for optimizers that update whole variables.

Inside `showing_rows_in_use` the variable of a table and its slots have the shape [n, width]: row i
belongs to the i-th key in use. Inside `showing_rows_of` they have the rows of a gradient. Reads,
assignments, gathers and scatters apply to these rows, so the optimizer's cost follows them. The
effect is limited to the calling thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import variable_accessed
from sok_compat.tables.variable_mixin import VariableMixin


class Shows:
    """What a table and its slots show: all rows, as users see them.

    row_ids: int64 [n], of the shown rows; None: all, by their ids.
    """

    row_ids: tf.Tensor | None = None

    def shape(self, whole: tf.TensorShape, is_vector: bool) -> tf.TensorShape:
        """Returns the shape of the shown rows, of a variable of the shape `whole`."""
        del is_vector
        return whole

    def rows_at(self, places: Any) -> Any:
        """Returns the ids of the rows at places; None: the variable knows what these mean."""
        del places


class AllRows(Shows):
    """All rows, at their ids."""

    def rows_at(self, places: Any) -> Any:
        """See the base class."""
        return places


class SomeRows(Shows):
    """A small number of rows, shown instead of the capacity while slots are made."""

    def __init__(self, num_rows: int | None) -> None:
        """Takes the number; None: it is known when run."""
        self.num_rows = num_rows

    def shape(self, whole: tf.TensorShape, is_vector: bool) -> tf.TensorShape:
        """See the base class."""
        return tf.TensorShape([self.num_rows] if is_vector else [self.num_rows, whole[1]])


class RowsInUse(SomeRows):
    """The rows of a step, or all in use, at their places among these."""

    row_ids: tf.Tensor

    def __init__(self, row_ids: tf.Tensor) -> None:
        """Takes row ids, int64 [n], distinct; ascending, for `localized`."""
        super().__init__(None)
        self.row_ids = row_ids

    def rows_at(self, places: Any) -> Any:
        """See the base class."""
        return tf.gather(self.row_ids, places)

    def localized(self, gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
        """Converts a gradient of the table (row ids, or [capacity, dim]) to the shown rows."""
        if not isinstance(gradient, tf.IndexedSlices):
            return tf.gather(gradient, self.row_ids)
        places = tf.searchsorted(self.row_ids, tf.cast(gradient.indices, tf.int64))
        shape = [tf.size(self.row_ids), gradient.values.shape[1]]
        return tf.IndexedSlices(gradient.values, places, tf.stack(shape))


_TO_USERS = Shows()


class Shown(threading.local):
    """What a table and its slots show to each thread."""

    now: Shows = _TO_USERS


@contextlib.contextmanager
def showing_rows_in_use(table: ShownRows) -> Iterator[RowsInUse]:
    """Context in which `table` and its slots show their rows in use; yields the RowsInUse."""
    with tf.device(table.device):
        rows = RowsInUse(ops.sok_rows_in_use(table.table_handle))
    with _showing(table, rows):
        yield rows


@contextlib.contextmanager
def showing_rows_of(
    table: ShownRows, gradient: tf.Tensor | tf.IndexedSlices
) -> Iterator[tf.Tensor | tf.IndexedSlices]:
    """Context in which `table` and its slots show the rows of its gradient; yields the gradient of
    the shown rows. A dense gradient has all rows in use.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        with showing_rows_in_use(table) as rows:
            yield rows.localized(gradient)
        return
    with tf.device(table.device):
        row_ids, places = tf.unique(tf.cast(gradient.indices, tf.int64))
    shape = tf.stack([tf.size(row_ids), gradient.values.shape[1]])
    with _showing(table, RowsInUse(row_ids)):
        yield tf.IndexedSlices(gradient.values, places, shape)


def showing_some_rows(table: ShownRows) -> AbstractContextManager[None]:
    """Context in which the shape of `table` is [n, dim], with a small n other than dim."""
    return _showing(table, SomeRows(table.dim + 1))


def showing_all_rows(table: ShownRows) -> AbstractContextManager[None]:
    """Context in which gathers and scatters of `table` take row ids, as gradients have, no keys."""
    return _showing(table, AllRows())


def is_showing_some_rows(table: ShownRows) -> bool:
    """Whether `table` is inside `showing_some_rows`."""
    return type(table.shown.now) is SomeRows


@contextlib.contextmanager
def _showing(table: ShownRows, rows: Shows) -> Iterator[None]:
    before, table.shown.now = table.shown.now, rows
    try:
        yield
    finally:
        table.shown.now = before


class ShownRows(VariableMixin):
    """First base class of tables and slots: applies reads and updates to the shown rows.

    Outside `showing_rows_in_use` the next class applies. `shown` is the table's.
    """

    shown: Shown
    table_handle: tf.Tensor
    is_vector = False  # True: a slot of width 1 shows [n], not [n, 1]

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the shown rows."""
        return self.shown.now.shape(super().shape, self.is_vector)

    def value(self) -> tf.Tensor:
        """Returns the shown rows."""
        row_ids = self.shown_row_ids()
        return super().value() if row_ids is None else self._gather(row_ids)

    def read_value(self) -> tf.Tensor:
        """As value()."""
        row_ids = self.shown_row_ids()
        return super().read_value() if row_ids is None else self._gather(row_ids)

    def sparse_read(self, indices: tf.Tensor, name: str | None = None) -> tf.Tensor:
        """Gathers from the shown rows."""
        row_ids = self.shown.now.rows_at(indices)
        return super().sparse_read(indices, name) if row_ids is None else self._gather(row_ids)

    def _dense_var_to_tensor(
        self, dtype: tf.DType | None = None, name: str | None = None, as_ref: bool = False
    ) -> tf.Tensor:
        if self.shown_row_ids() is None:
            return super()._dense_var_to_tensor(dtype, name, as_ref)
        if dtype is not None and not tf.as_dtype(dtype).is_compatible_with(tf.float32):
            return NotImplemented
        return self.value()

    def shows_rows_in_use(self) -> bool:
        """Whether this is inside `showing_rows_in_use` or `showing_rows_of`."""
        return self.shown_row_ids() is not None

    def shows_rows(self) -> bool:
        """Whether this is inside one of these contexts."""
        return self.shown.now is not _TO_USERS

    def shown_row_ids(self) -> tf.Tensor | None:
        """Returns int64 [n], the ids of the rows that this shows; None: all, by their ids."""
        return self.shown.now.row_ids

    def _gather(self, row_ids: tf.Tensor) -> tf.Tensor:
        variable_accessed(self)
        with tf.device(self.device):
            rows = tf.raw_ops.ResourceGather(
                resource=self.handle, indices=row_ids, dtype=tf.float32
            )
        return tf.squeeze(rows, axis=-1) if self.is_vector else rows

    def _scatter_shown(
        self, scatter: Callable[..., tf.Operation], values: tf.Tensor, row_ids: tf.Tensor
    ) -> tf.Operation | tf.Variable:
        """Returns the op; in eager mode the variable, as the variable's own methods do."""
        values = tf.convert_to_tensor(values, tf.float32)
        values = values[..., tf.newaxis] if self.is_vector else values
        with tf.device(self.device):
            done = scatter(resource=self.handle, indices=row_ids, updates=values)
        return self if tf.executing_eagerly() else done

    def _assigned(self, done: tf.Operation | tf.Variable, value: Any) -> Any:
        """Returns what `assign` of all shown rows does: outside of eager mode their values, which
        optimizers go on with."""
        if tf.executing_eagerly():
            return done
        with tf.control_dependencies([done]):
            return tf.identity(value)


def _updating(method: str, scatter: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `method` of a variable, replaced by `scatter` while rows in use are shown."""

    def update(self, value, *args, **kwargs):
        row_ids = self.shown_row_ids()
        if row_ids is None:
            return getattr(super(ShownRows, self), method)(value, *args, **kwargs)
        if not isinstance(value, tf.IndexedSlices):
            done = self._scatter_shown(scatter, value, row_ids)
            return self._assigned(done, value) if method == "assign" else done
        return self._scatter_shown(scatter, value.values, tf.gather(row_ids, value.indices))

    update.__name__ = method
    update.__doc__ = "Updates the shown rows; outside showing_rows_in_use, see the next class."
    return update


for _method, _scatter in {
    "assign": tf.raw_ops.ResourceScatterUpdate,
    "assign_add": tf.raw_ops.ResourceScatterAdd,
    "assign_sub": tf.raw_ops.ResourceScatterSub,
    "scatter_add": tf.raw_ops.ResourceScatterAdd,
    "scatter_sub": tf.raw_ops.ResourceScatterSub,
    "scatter_update": tf.raw_ops.ResourceScatterUpdate,
}.items():
    setattr(ShownRows, _method, _updating(_method, _scatter))
