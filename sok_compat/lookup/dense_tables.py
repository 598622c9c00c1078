# SPDX-License-Identifier: Apache-2.0
"""Lookups in tables that are two dense arrays, by TensorFlow's own ops: for graphs that are served
where the op library is not."""

import contextlib
import dataclasses
import threading

import tensorflow as tf

from sok_compat.lookup.pooling import pool_rows

_reading = threading.local()  # .arrays_of: of the innermost context


@dataclasses.dataclass(frozen=True, eq=False)
class DenseTable:
    """What a table holds, for reading alone.

    keys: int64 [n + 1], ascending; the last one, the greatest int64, is there for the search.
    rows: float32 [n + period, dim]: of the keys, then those that other keys have: the row
      n + floormod(key, period).
    """

    keys: tf.Tensor
    rows: tf.Tensor
    period: int = 1

    def rows_of(self, keys):
        """float32 [n, dim], of keys int64 [n]."""
        num_keys = tf.size(self.keys, out_type=tf.int64) - 1
        places = tf.searchsorted(self.keys, keys, out_type=tf.int64)
        is_there = tf.equal(tf.gather(self.keys, places), keys) & (places < num_keys)
        absent = num_keys + tf.math.floormod(keys, self.period)
        return tf.gather(self.rows, tf.where(is_there, places, absent))


@contextlib.contextmanager
def dense_tables(arrays_of):
    """A context in which lookups are built of TensorFlow's ops.

    Args:
      arrays_of: a function of a Table that gives its DenseTable.
    """
    before = getattr(_reading, "arrays_of", None)
    _reading.arrays_of = arrays_of
    try:
        yield
    finally:
        _reading.arrays_of = before


def tables_are_dense():
    """Whether such a context is open."""
    return getattr(_reading, "arrays_of", None) is not None


def look_up_dense(lookup):
    """As `lookup_group` with insert=False, of one `Lookup` with keys int64."""
    rows = _reading.arrays_of(lookup.table).rows_of(lookup.keys)
    if lookup.row_splits is None:
        return rows
    return pool_rows(rows, lookup.row_splits, lookup.combiner, lookup.weights)


def split_sparse(indices, dense_shape, slot_num):
    """The row splits int64 [rows + 1] of a SparseTensor's indices; fails for rows that do not
    ascend, or are no multiple of slot_num."""
    rows = indices[:, 0]
    checks = [
        tf.debugging.Assert(tf.reduce_all(rows[1:] >= rows[:-1]), ["rows must ascend, got", rows]),
        tf.debugging.Assert(
            tf.equal(tf.math.floormod(dense_shape[0], slot_num), 0),
            [f"rows must be a multiple of slot_num, {slot_num}, got", dense_shape[0]],
        ),
    ]
    with tf.control_dependencies(checks):
        return tf.searchsorted(rows, tf.range(dense_shape[0] + 1), out_type=tf.int64)
