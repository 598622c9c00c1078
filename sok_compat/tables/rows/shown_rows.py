# SPDX-License-Identifier: Apache-2.0
"""Tables and slots that show their rows in use only, for optimizers that compute on all they see.

Inside `showing_rows_in_use` the variable of a table and its slots have the shape [n, width]: row i
is that of the i-th key in use. What reads, assigns, gathers or scatters goes to these rows, so an
optimizer of whole variables costs rows in use. Only for the thread that is inside.
"""

import contextlib
import dataclasses
import threading

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import variable_accessed

_shown = threading.local()  # .by_table: {id of a table's handle: what it shows}


@dataclasses.dataclass(frozen=True)
class RowsInUse:
    """What a table shows."""

    row_ids: tf.Tensor  # int64 [n], ascending

    def localized(self, gradient):
        """A gradient of the table (row ids, or [capacity, dim]) as one of what it shows."""
        if not isinstance(gradient, tf.IndexedSlices):
            return tf.gather(gradient, self.row_ids)
        places = tf.searchsorted(self.row_ids, tf.cast(gradient.indices, tf.int64))
        shape = [tf.size(self.row_ids), gradient.values.shape[1]]
        return tf.IndexedSlices(gradient.values, places, tf.stack(shape))


@dataclasses.dataclass(frozen=True)
class SomeRows:
    """What a table shows whose slots are being made: a few rows in the place of the capacity."""

    num_rows: int


@contextlib.contextmanager
def showing_rows_in_use(table):
    """Gives the RowsInUse that `table` and its slots show inside."""
    with tf.device(table.device):
        rows = RowsInUse(ops.sok_rows_in_use(table.table_handle))
    with _showing(table, rows):
        yield rows


def showing_some_rows(table):
    """Inside, the shape of `table` is [a few, dim], a few being a number that is not the dim."""
    return _showing(table, SomeRows(table.dim + 1))


def is_showing_some_rows(table):
    """Whether it is inside of `showing_some_rows`."""
    return isinstance(table._shown(), SomeRows)


@contextlib.contextmanager
def _showing(table, rows):
    if not hasattr(_shown, "by_table"):
        _shown.by_table = {}
    place = id(table.table_handle)
    before = _shown.by_table.get(place)
    _shown.by_table[place] = rows
    try:
        yield
    finally:
        if before is None:
            del _shown.by_table[place]
        else:
            _shown.by_table[place] = before


class ShownRows:
    """Before everything else in a table or slot: does to the rows that are shown what is asked for
    all; outside of `showing_rows_in_use` nothing changes. `table_handle` is the table's."""

    is_vector = False  # a slot of one number a row shows [n], not [n, 1]

    @property
    def shape(self):
        """Of what is shown."""
        shape, shown = super().shape, self._shown()
        if shown is None:
            return shape
        num_rows = shown.num_rows if isinstance(shown, SomeRows) else None
        return tf.TensorShape([num_rows] if self.is_vector else [num_rows, shape[1]])

    def value(self):
        """What is shown."""
        rows = self._rows_in_use()
        return super().value() if rows is None else self._gather(rows.row_ids)

    def read_value(self):
        """As value()."""
        rows = self._rows_in_use()
        return super().read_value() if rows is None else self._gather(rows.row_ids)

    def sparse_read(self, indices, name=None):
        """Some of what is shown, as tf.gather."""
        rows = self._rows_in_use()
        if rows is None:
            return super().sparse_read(indices, name)
        return self._gather(tf.gather(rows.row_ids, indices))

    def _dense_var_to_tensor(self, dtype=None, name=None, as_ref=False):
        if self._rows_in_use() is None:
            return super()._dense_var_to_tensor(dtype, name, as_ref)
        if dtype is not None and not tf.as_dtype(dtype).is_compatible_with(tf.float32):
            return NotImplemented
        return self.value()

    def _shown(self):
        return getattr(_shown, "by_table", {}).get(id(getattr(self, "table_handle", None)))

    def _rows_in_use(self):
        shown = self._shown()
        return shown if isinstance(shown, RowsInUse) else None

    def _gather(self, row_ids):
        variable_accessed(self)
        with tf.device(self.device):
            rows = tf.raw_ops.ResourceGather(
                resource=self.handle, indices=row_ids, dtype=tf.float32
            )
        return tf.squeeze(rows, axis=-1) if self.is_vector else rows

    def _scatter_shown(self, scatter, values, row_ids):
        """The op; in eager mode the variable, as of its own methods."""
        values = tf.convert_to_tensor(values, tf.float32)
        values = values[..., tf.newaxis] if self.is_vector else values
        with tf.device(self.device):
            done = scatter(resource=self.handle, indices=row_ids, updates=values)
        return self if tf.executing_eagerly() else done


def _updating(method, scatter):
    """`method` of a variable, with `scatter` in its place where rows in use are shown."""

    def update(self, value, *args, **kwargs):
        rows = self._rows_in_use()
        if rows is None:
            return getattr(super(ShownRows, self), method)(value, *args, **kwargs)
        if not isinstance(value, tf.IndexedSlices):
            return self._scatter_shown(scatter, value, rows.row_ids)
        return self._scatter_shown(scatter, value.values, tf.gather(rows.row_ids, value.indices))

    update.__name__ = method
    update.__doc__ = "Changes the rows that are shown; outside of that, see the next class."
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
