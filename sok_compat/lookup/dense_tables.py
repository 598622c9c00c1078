# SPDX-License-Identifier: Apache-2.0
"""Lookups by TensorFlow's own ops in tables stored as dense arrays.

They are for graphs that are served without the op library.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator

import tensorflow as tf

from sok_compat.lookup.initial_rows import InitialRows
from sok_compat.lookup.perfect_hash import PerfectHash
from sok_compat.lookup.pooling import pool_rows
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.checked import checked
from sok_compat.tables.table import Table

_reading = threading.local()  # .arrays_of: that of the innermost context


@dataclasses.dataclass(frozen=True, eq=False)
class DenseTable:
    """The contents of a table, read-only.

    perfect_hash: the slot of a key.
    keys: int64 [n + 1], by slot; the last one is there for a table without keys.
    rows: float32 [n + period, dim], by slot; a key that is not there has the row
      n + floormod(key, period).
    """

    perfect_hash: PerfectHash
    keys: tf.Tensor
    rows: tf.Tensor
    period: int = 1

    def rows_of(self, keys: tf.Tensor, initial_rows: InitialRows | None = None) -> tf.Tensor:
        """Returns the rows float32 [n, dim] of keys int64 [n]; `initial_rows` are of other keys
        than the table's."""
        num_keys = tf.size(self.keys, out_type=tf.int64) - 1
        slots = self.perfect_hash.slots_of(keys)
        is_there = tf.equal(tf.gather(self.keys, slots), keys) & (slots < num_keys)
        absent = num_keys + tf.math.floormod(keys, self.period)
        rows = tf.gather(self.rows, tf.where(is_there, slots, absent))
        if initial_rows is None:
            return rows
        others = tf.where(~is_there)
        return tf.tensor_scatter_nd_update(rows, others, initial_rows(others[:, 0]))


@contextlib.contextmanager
def dense_tables(arrays_of: Callable[[Table], DenseTable] | None) -> Iterator[None]:
    """Context in which lookups use TensorFlow's own ops on these arrays; None: the op library."""
    before = getattr(_reading, "arrays_of", None)
    _reading.arrays_of = arrays_of
    try:
        yield
    finally:
        _reading.arrays_of = before


def tables_are_dense() -> bool:
    """Whether a context of `dense_tables` applies."""
    return getattr(_reading, "arrays_of", None) is not None


def look_up_dense(lookup: Lookup) -> tf.Tensor:
    """As `lookup_group` with insert=False, for one `Lookup` with int64 keys."""
    history = lookup.table.history
    has_filter = history is not None and history.filter_freq  # other keys read its value
    initial_rows = None if has_filter else lookup.new_keys.initial_rows
    rows = _reading.arrays_of(lookup.table).rows_of(lookup.keys, initial_rows)
    if lookup.row_splits is None:
        return rows
    return pool_rows(rows, lookup.row_splits, lookup.combiner, lookup.weights)


def split_sparse(indices: tf.Tensor, dense_shape: tf.Tensor, bags_per_sample: int) -> tf.Tensor:
    """Returns the row splits int64 [rows + 1] of a SparseTensor's indices.

    Fails when run if the rows do not ascend, or their number is not a multiple of bags_per_sample.
    """
    rows = indices[:, 0]
    num_rows = dense_shape[0]
    rows = checked(rows, tf.reduce_all(rows[1:] >= rows[:-1]), "rows must ascend, got", rows)
    is_multiple = tf.equal(tf.math.floormod(num_rows, bags_per_sample), 0)
    message = f"rows must be a multiple of {bags_per_sample}, the bags of a sample, got"
    num_rows = checked(num_rows, is_multiple, message, num_rows)
    return tf.searchsorted(rows, tf.range(num_rows + 1), out_type=tf.int64)
