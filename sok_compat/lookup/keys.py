# SPDX-License-Identifier: Apache-2.0
"""Keys as lookups take them."""

import tensorflow as tf


def checked_keys(table, keys, name=None):
    """`keys` in the table's key_dtype; int32 keys of a table of int64 are widened.

    Args:
      table: the Table that is read.
      keys: a tensor, or what can become one.
      name: of who asks, for the message; None: the table's.

    Raises:
      ValueError: another dtype.
    """
    keys = tf.convert_to_tensor(keys)
    if keys.dtype == tf.int32 and table.key_dtype == tf.int64:
        return tf.cast(keys, tf.int64)
    if keys.dtype != table.key_dtype:
        wanted = "int64 or int32" if table.key_dtype == tf.int64 else table.key_dtype.name
        raise ValueError(
            f"{name or table.table_name}: keys must be {wanted}, by the key_dtype "
            f"{table.key_dtype.name}, got {keys.dtype.name}; use tf.cast, or key_dtype='int64' or "
            "'uint32'"
        )
    return keys
