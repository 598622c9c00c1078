# SPDX-License-Identifier: Apache-2.0
"""Rows of given keys and row ids, for writes; other rows and optimizer slots stay."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.plane_variable import PlaneVariable
from sok_compat.tables.rows.row_scatters import scatter_rows


def write_rows(table: TableInterface, keys: tf.Tensor, rows: tf.Tensor) -> tf.Operation | None:
    """Sets the rows of distinct keys that this rank owns; returns the op, None in eager mode.

    Raises:
      tf.errors.InvalidArgumentError: when run: a key is out of range or owned by another rank.
    """
    rows = tf.convert_to_tensor(rows, tf.float32)
    with tf.device(table.device):
        row_ids = ops.sok_insert_rows(table.table_handle, tf.convert_to_tensor(keys), rows)
        return scatter_rows(table, "update", row_ids, rows)


def all_rows(plane: PlaneVariable) -> tf.Tensor:
    """Returns the ids of the rows that a write to a whole table or slot sets.

    Without a hash index these are all rows, which get their first values now: a write must not be
    lost because no lookup has inserted the key. With one, the rows in use.
    """
    with tf.device(plane.device):
        return ops.sok_rows_in_use(plane.table_handle, insert_all=True)


def rows_at(table: TableInterface, row_ids: tf.Tensor) -> tf.Tensor:
    """Returns row ids of a table without a hash index; like `all_rows`, the rows get first values.

    Raises:
      tf.errors.InvalidArgumentError: when run: this rank has no such row.
    """
    keys = table.placement.key_of_row(tf.cast(row_ids, tf.int64))
    with tf.device(table.device):
        (row_ids,) = ops.sok_find_rows(
            [table.table_handle],
            [tf.reshape(keys, [-1])],
            [],
            insert=True,
            keys_are_distinct=False,
        )
    return tf.reshape(row_ids, tf.shape(keys))
