# SPDX-License-Identifier: Apache-2.0
"""Sets the rows of given keys; other rows and optimizer slots stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from sok_compat.runtime.op_library import ops

if TYPE_CHECKING:
    from sok_compat.tables.table import Table


def write_rows(table: Table, keys: tf.Tensor, rows: tf.Tensor) -> tf.Operation | None:
    """Sets the rows of keys that this rank owns.

    Args:
      table: a Table, initialized.
      keys: int64 [n], distinct.
      rows: float32 [n, dim].

    Returns:
      The op; None in eager mode.

    Raises:
      tf.errors.InvalidArgumentError: when run: a key is out of range or owned by another rank.
    """
    rows = tf.convert_to_tensor(rows, tf.float32)
    with tf.device(table.device):
        row_ids = ops.sok_insert_rows(table.table_handle, tf.convert_to_tensor(keys), rows)
        return tf.raw_ops.ResourceScatterUpdate(
            resource=table.handle, indices=row_ids, updates=rows
        )
