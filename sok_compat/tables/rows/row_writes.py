# SPDX-License-Identifier: Apache-2.0
"""Rows of some keys, set to given ones; the others, and slots of optimizers, stay."""

import tensorflow as tf

from sok_compat.runtime.op_library import ops


def write_rows(table, keys, rows):
    """Sets the rows of keys that this rank owns.

    Args:
      table: a Table, initialized.
      keys: int64 [n], distinct.
      rows: float32 [n, dim].

    Returns:
      The op; None in eager mode.

    Raises:
      tf.errors.InvalidArgumentError: when run: a key of another rank, or out of range.
    """
    rows = tf.convert_to_tensor(rows, tf.float32)
    with tf.device(table.device):
        row_ids = ops.sok_insert_rows(table.table_handle, tf.convert_to_tensor(keys), rows)
        return tf.raw_ops.ResourceScatterUpdate(
            resource=table.handle, indices=row_ids, updates=rows
        )
