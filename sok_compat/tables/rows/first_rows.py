# SPDX-License-Identifier: Apache-2.0
"""What rows start as, where the op library does not know it by itself."""

import tensorflow as tf


def first_rows(table, keys):
    """What the rows of keys start as.

    Args:
      table: a Table whose first value `is_given`.
      keys: int64 [n].

    Returns:
      float32 [n, dim].
    """
    first = table.first_value
    if first.rows is None:
        return first.evaluate(tf.stack([tf.size(keys), table.dim]))
    return tf.gather(first.rows, tf.math.floormod(keys, first.period))
