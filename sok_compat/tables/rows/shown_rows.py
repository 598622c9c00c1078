# SPDX-License-Identifier: Apache-2.0
"""Tables and slots that show only their rows in use, for optimizers that update whole variables.

Inside `showing_rows_in_use` the variable of a table and its slots have the shape [n, width]: row i
belongs to the i-th key in use. Inside `showing_rows_of` they have the rows of a gradient. Reads,
assignments, gathers and scatters apply to these rows, so the optimizer's cost follows them. The
effect is limited to the calling thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.shows import AllRows, RowsInUse, Shows, SomeRows


@contextlib.contextmanager
def showing_rows_in_use(table: TableInterface) -> Iterator[RowsInUse]:
    """Context in which `table` and its slots show their rows in use; yields the RowsInUse."""
    with tf.device(table.device):
        rows = RowsInUse(ops.sok_rows_in_use(table.table_handle))
    with _showing(table, rows):
        yield rows


@contextlib.contextmanager
def showing_rows_of(
    table: TableInterface, gradient: tf.Tensor | tf.IndexedSlices
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


def showing_some_rows(table: TableInterface) -> AbstractContextManager[None]:
    """Context in which the shape of `table` is [n, dim], with a small n other than dim."""
    return _showing(table, SomeRows(table.dim + 1))


def showing_all_rows(table: TableInterface) -> AbstractContextManager[None]:
    """Context in which gathers and scatters of `table` take row ids, as gradients have, no keys."""
    return _showing(table, AllRows())


def is_showing_some_rows(table: TableInterface) -> bool:
    """Whether `table` is inside `showing_some_rows`."""
    return type(table.shown.now) is SomeRows


@contextlib.contextmanager
def _showing(table: TableInterface, rows: Shows) -> Iterator[None]:
    before, table.shown.now = table.shown.now, rows
    try:
        yield
    finally:
        table.shown.now = before
