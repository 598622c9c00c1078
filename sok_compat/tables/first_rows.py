# SPDX-License-Identifier: Apache-2.0
"""What rows start as, where the op library does not know it by itself."""

import tensorflow as tf

from sok_compat.runtime.op_library import ops


def first_rows(table, keys):
    """What the rows of keys start as.

    Args:
      table: a Table whose first value `is_given`.
      keys: int64 [n].

    Returns:
      float32 [n, dim].
    """
    first = table.first_value
    if first.period is None:
        return first.evaluate(tf.stack([tf.size(keys), table.dim]))
    places = tf.math.floormod(keys, first.period)
    return _drawn(table, places) if first.rows is None else tf.gather(first.rows, places)


def _drawn(table, keys):
    """What the op library makes for keys, whether the table holds them or not."""
    return ops.sok_pool_rows(
        rows=[table.handle],
        tables=[table.table_handle],
        keys=[keys],
        row_ids=[tf.fill([tf.size(keys)], tf.constant(-1, tf.int64))],
        absent_rows=[tf.zeros([0, table.dim])],
        inverse=[tf.range(tf.size(keys))],
        row_splits=[tf.constant([], tf.int64)],
        weights=[tf.constant([], tf.float32)],
        combiners=["none"],
        dims=[table.dim],
        all_keys_have_rows=False,
    )[0]
