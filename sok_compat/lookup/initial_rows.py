# SPDX-License-Identifier: Apache-2.0
"""Initial rows that the caller of a lookup gives to keys without a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

# From places int64 [n] among keys to the initial rows of these keys, float32 [n, dim].
InitialRows = Callable[[tf.Tensor], tf.Tensor]


def of_distinct_keys(
    initial_rows: Sequence[InitialRows | None],
    keys: Sequence[tf.Tensor],
    inverse: Sequence[tf.Tensor],
) -> list[InitialRows | None]:
    """Returns the InitialRows of distinct keys, which are those of each key's first occurrence.

    Args:
      initial_rows: for each table, an InitialRows of all occurrences, or None.
      keys: [number of distinct keys] for each.
      inverse: int32 [number of occurrences] for each: the index of each one's key.
    """
    return [
        None if rows is None else _of_first_occurrences(rows, *item)
        for rows, *item in zip(initial_rows, keys, inverse)
    ]


def _of_first_occurrences(
    initial_rows: InitialRows, keys: tf.Tensor, inverse: tf.Tensor
) -> InitialRows:
    occurrences = tf.range(tf.size(inverse))
    first = tf.math.unsorted_segment_min(occurrences, inverse, tf.size(keys))
    return lambda places: initial_rows(tf.gather(first, places))
