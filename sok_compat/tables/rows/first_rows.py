# SPDX-License-Identifier: Apache-2.0
"""Initial rows that the op library cannot compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from sok_compat.tables.table import Table


def first_rows(table: Table, keys: tf.Tensor) -> tf.Tensor:
    """Returns the initial rows of keys.

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
